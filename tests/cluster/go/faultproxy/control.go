package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// controller is what the test talks to:
//
//	POST   /rules          a rule (rules.go)                      -> {"id": N}
//	GET    /rules                                                 -> the rules, with what they have seen and hit
//	DELETE /rules[?id=N]   one, or all
//	GET    /log[?since=N]  the requests after number N
//	GET    /held           what waits to be released
//	POST   /release[?n=N]  that request, or all
//	POST   /connections?do=close|freeze|thaw
type controller struct{ proxy *proxy }

func (c controller) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	number := func(name string) int {
		n, _ := strconv.Atoi(request.URL.Query().Get(name)) // absent: 0
		return n
	}
	switch request.Method + " " + request.URL.Path {
	case "POST /rules":
		var one rule
		decoder := json.NewDecoder(request.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&one)
		if err == nil {
			one.ID, err = c.proxy.rules.add(one)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, map[string]int{"id": one.ID})
	case "GET /rules":
		reply(w, c.proxy.rules.list())
	case "DELETE /rules":
		c.proxy.rules.remove(number("id"))
		reply(w, nil)
	case "GET /log":
		reply(w, c.proxy.since(number("since")))
	case "GET /held":
		reply(w, c.proxy.held.list())
	case "POST /release":
		reply(w, map[string]int{"released": c.proxy.held.release(number("n"))})
	case "POST /connections":
		switch do := request.URL.Query().Get("do"); do {
		case "close":
			reply(w, map[string]int{"closed": c.proxy.connections.close()})
		case "freeze", "thaw":
			c.proxy.connections.freeze(do == "freeze")
			reply(w, nil)
		default:
			http.Error(w, "do=close, freeze or thaw", http.StatusBadRequest)
		}
	default:
		http.NotFound(w, request)
	}
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// waiting is a request that a rule holds.
type waiting struct {
	Number  int    `json:"n"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Rule    int    `json:"rule"`
	release chan struct{}
}

type held struct {
	mutex   sync.Mutex
	waiting map[int]*waiting
}

func (h *held) wait(request *http.Request, number, rule int) {
	one := &waiting{number, request.Method, request.URL.RequestURI(), rule, make(chan struct{})}
	h.mutex.Lock()
	h.waiting[number] = one
	h.mutex.Unlock()
	select {
	case <-one.release:
	case <-request.Context().Done():
	}
	h.mutex.Lock()
	delete(h.waiting, number)
	h.mutex.Unlock()
}

func (h *held) list() []*waiting {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	all := []*waiting{}
	for _, one := range h.waiting {
		all = append(all, one)
	}
	return all
}

// release lets one go on, or all with number 0.
func (h *held) release(number int) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	count := 0
	for n, one := range h.waiting {
		if number == 0 || n == number {
			close(one.release)
			delete(h.waiting, n)
			count++
		}
	}
	return count
}
