package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// entry is what the log keeps of a request.
type entry struct {
	Number   int     `json:"n"`
	Method   string  `json:"method"`
	Path     string  `json:"path"`
	Protocol string  `json:"protocol"`
	Agent    string  `json:"agent"`
	Action   string  `json:"action,omitempty"`
	Rule     int     `json:"rule,omitempty"`
	Code     int     `json:"code"` // 0: the client got none
	Upstream int     `json:"upstream"`
	StartMs  float64 `json:"start_ms"` // since the proxy was started
	EndMs    float64 `json:"end_ms"`   // 0: not yet
	Events   int     `json:"events,omitempty"`
}

const maxEntries = 200_000

type proxy struct {
	upstream    *url.URL
	transport   http.RoundTripper
	rules       rules
	connections *connections
	held        held
	started     time.Time

	mutex   sync.Mutex
	entries []*entry
	first   int // number of entries[0]
}

func newProxy(upstream *url.URL, transport http.RoundTripper, seed uint64) *proxy {
	return &proxy{
		upstream:    upstream,
		transport:   transport,
		rules:       rules{random: rand.New(rand.NewPCG(seed, seed))},
		connections: newConnections(),
		held:        held{waiting: map[int]*waiting{}},
		started:     time.Now(),
		first:       1,
	}
}

func (p *proxy) now() float64 { return float64(time.Since(p.started).Microseconds()) / 1000 }

func (p *proxy) begin(request *http.Request, fault *rule) *entry {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.entries) == maxEntries {
		p.entries = append(p.entries[:0:0], p.entries[maxEntries/2:]...)
		p.first += maxEntries / 2
	}
	one := &entry{
		Number: p.first + len(p.entries), Method: request.Method, Path: request.URL.RequestURI(),
		Protocol: request.Proto, Agent: request.UserAgent(), StartMs: p.now(),
	}
	if fault != nil {
		one.Action, one.Rule = fault.Action, fault.ID
	}
	p.entries = append(p.entries, one)
	return one
}

func (p *proxy) note(change func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	change()
}

// since copies the entries after a number.
func (p *proxy) since(number int) []entry {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	from := max(0, number+1-p.first)
	all := []entry{}
	for _, one := range p.entries[min(from, len(p.entries)):] {
		all = append(all, *one)
	}
	return all
}

// cut ends the stream without an end: RST_STREAM in HTTP/2, a closed connection in HTTP/1.1.
func cut() { panic(http.ErrAbortHandler) }

func (p *proxy) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	fault := p.rules.pick(request)
	one := p.begin(request, fault)
	defer func() { p.note(func() { one.EndMs = p.now() }) }()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the client has gone
	}
	action := ""
	if fault != nil {
		action = fault.Action
	}
	switch action {
	case "answer":
		p.note(func() { one.Code = fault.Code })
		answer(w, fault)
		return
	case "drop":
		cut()
	case "hold":
		p.held.wait(request, one.Number, fault.ID)
	case "delay":
		pause(request, fault.DelayMs)
	case "twice":
		if response, err := p.ask(request, body); err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	response, err := p.ask(request, body)
	if err != nil {
		if request.Context().Err() == nil {
			p.note(func() { one.Code = http.StatusBadGateway })
			http.Error(w, "faultproxy: "+err.Error(), http.StatusBadGateway)
		}
		return
	}
	defer response.Body.Close()
	p.note(func() { one.Upstream = response.StatusCode })
	switch action {
	case "drop_answer", "cut_connection":
		io.Copy(io.Discard, response.Body)
		if action == "cut_connection" {
			request.Context().Value(connectionKey{}).(net.Conn).Close()
		}
		cut()
	case "hold_answer":
		p.held.wait(request, one.Number, fault.ID)
	case "goaway":
		w.Header().Set("Connection", "close")
	}
	p.note(func() { one.Code = response.StatusCode })
	p.forward(w, request, response, fault, one)
}

// ask sends the request to the API server.
func (p *proxy) ask(request *http.Request, body []byte) (*http.Response, error) {
	target := *request.URL
	target.Scheme, target.Host = p.upstream.Scheme, p.upstream.Host
	out, err := http.NewRequestWithContext(request.Context(), request.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = request.Header.Clone()
	for _, name := range []string{"Connection", "Upgrade", "Te", "Transfer-Encoding"} {
		out.Header.Del(name)
	}
	return p.transport.RoundTrip(out)
}

// answer is a refusal as the API server words it.
func answer(w http.ResponseWriter, fault *rule) {
	status := map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": fault.Message, "reason": fault.Reason, "code": fault.Code,
	}
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		status["details"] = map[string]any{"retryAfterSeconds": fault.RetryAfter}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(fault.Code)
	json.NewEncoder(w).Encode(status)
}

// pause waits, but not longer than the client.
func pause(request *http.Request, milliseconds int) {
	select {
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
	case <-request.Context().Done():
	}
}
