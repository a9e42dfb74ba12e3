package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sync"
)

// A rule says which requests get which fault. The first rule that matches and whose turn it is applies; no other does.
type rule struct {
	ID int `json:"id"`

	// Which requests. Empty fields match everything; Path is a regular expression for path and query.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Watch  *bool  `json:"watch,omitempty"`

	// How often: after Skip matching requests, Times times (0: always), each with Probability (0: certainly).
	Skip        int     `json:"skip,omitempty"`
	Times       int     `json:"times,omitempty"`
	Probability float64 `json:"probability,omitempty"`

	Action string `json:"action"`

	Code       int    `json:"code,omitempty"`        // answer
	Reason     string `json:"reason,omitempty"`      // answer
	Message    string `json:"message,omitempty"`     // answer
	RetryAfter int    `json:"retry_after,omitempty"` // answer, in seconds
	DelayMs    int    `json:"delay_ms,omitempty"`    // delay, slow; stall: 0 = until released
	Bytes      int    `json:"bytes,omitempty"`       // cut: after so many bytes of the answer's body
	Events     int    `json:"events,omitempty"`      // cut, end, expire, stall, inject: after so many events
	Text       string `json:"text,omitempty"`        // inject: a line of the watch

	// How it went.
	Seen int `json:"seen"`
	Hits int `json:"hits"`

	path *regexp.Regexp
}

// The actions. The first group acts on the request as a whole, the second on the body of the server's answer.
var actions = []string{
	"answer",         // answers in the server's place, which never sees the request
	"drop",           // cuts the stream before the server sees the request
	"drop_answer",    // the server does what was asked, then the stream is cut
	"cut_connection", // as drop_answer, but with all streams of the connection
	"hold",           // waits until released, then asks the server
	"hold_answer",    // asks the server, waits until released, then answers
	"delay",          // asks the server after delay_ms
	"twice",          // asks the server twice; the second answer is the client's
	"goaway",         // answers and asks the client to leave the connection
	"cut",            // cuts the stream after so many bytes, or events
	"end",            // ends the answer regularly after so many events
	"expire",         // 410 as an ERROR event after so many events, then the end
	"stall",          // nothing more after so many events, for delay_ms or until released
	"slow",           // each event delay_ms late
	"duplicate",      // each event comes twice
	"inject",         // a line of the test's own after so many events
	"bytewise",       // every byte in a frame of its own
}

func (r *rule) prepare() error {
	if !slices.Contains(actions, r.Action) {
		return fmt.Errorf("unknown action %q; known are %v", r.Action, actions)
	}
	if r.Action == "answer" && r.Code < 400 {
		return fmt.Errorf("an answer needs a code of 400 or more, not %d", r.Code)
	}
	var err error
	r.path, err = regexp.Compile(r.Path)
	return err
}

func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "1" || watch == "true"
}

func (r *rule) matches(request *http.Request) bool {
	return (r.Method == "" || r.Method == request.Method) &&
		r.path.MatchString(request.URL.RequestURI()) &&
		(r.Watch == nil || *r.Watch == isWatch(request))
}

type rules struct {
	mutex  sync.Mutex
	all    []*rule
	next   int
	random *rand.Rand
}

func (r *rules) add(one rule) (int, error) {
	if err := one.prepare(); err != nil {
		return 0, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.next++
	one.ID, one.Seen, one.Hits = r.next, 0, 0
	r.all = append(r.all, &one)
	return one.ID, nil
}

// remove takes away one rule, or all with id 0.
func (r *rules) remove(id int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.all = slices.DeleteFunc(r.all, func(one *rule) bool { return id == 0 || one.ID == id })
}

func (r *rules) list() []rule {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	all := make([]rule, 0, len(r.all))
	for _, one := range r.all {
		all = append(all, *one)
	}
	return all
}

// pick finds the rule for a request and counts; nil if there is none.
func (r *rules) pick(request *http.Request) *rule {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, one := range r.all {
		if !one.matches(request) {
			continue
		}
		one.Seen++
		if one.Seen <= one.Skip || (one.Times > 0 && one.Hits >= one.Times) {
			continue
		}
		if one.Probability > 0 && r.random.Float64() >= one.Probability {
			continue
		}
		one.Hits++
		chosen := *one
		return &chosen
	}
	return nil
}
