package main

import (
	"bufio"
	"io"
	"net/http"
)

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}` + "\n"

// forward hands the server's answer to the client: a watch line by line, anything else as it comes.
func (p *proxy) forward(w http.ResponseWriter, request *http.Request, response *http.Response, fault *rule, one *entry) {
	for name, values := range response.Header {
		if name != "Connection" {
			w.Header()[name] = values
		}
	}
	if fault != nil && fault.Action == "cut" {
		w.Header().Del("Content-Length") // else a short body would be an error of our own server
	}
	w.WriteHeader(response.StatusCode)
	out := &output{w: w, flusher: http.NewResponseController(w), left: -1}
	if fault != nil {
		out.bytewise = fault.Action == "bytewise"
		if fault.Action == "cut" && fault.Bytes > 0 {
			out.left = fault.Bytes
		}
	}
	if !isWatch(request) || response.StatusCode != http.StatusOK {
		io.Copy(out, response.Body)
		if fault != nil && fault.Action == "cut" {
			out.flusher.Flush()
			cut()
		}
		return
	}
	out.flusher.Flush() // the client learns at once that the watch is open
	p.events(out, request, response, fault, one)
}

// events forwards a watch and counts its lines.
func (p *proxy) events(out *output, request *http.Request, response *http.Response, fault *rule, one *entry) {
	action, after := "", 0
	if fault != nil {
		action, after = fault.Action, fault.Events
	}
	reader := bufio.NewReaderSize(response.Body, 64<<10)
	for count := 0; ; count++ {
		if count == after {
			switch action {
			case "cut":
				if fault.Bytes == 0 {
					cut()
				}
			case "end":
				return
			case "expire":
				out.Write([]byte(expired))
				return
			case "inject":
				out.Write([]byte(fault.Text + "\n"))
			case "stall":
				if fault.DelayMs > 0 {
					pause(request, fault.DelayMs)
				} else {
					p.held.wait(request, one.Number, fault.ID)
				}
			}
		}
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if action == "slow" {
				pause(request, fault.DelayMs)
			}
			out.Write(line)
			if action == "duplicate" {
				out.Write(line)
			}
			p.note(func() { one.Events++ })
		}
		if err != nil {
			if err != io.EOF && request.Context().Err() == nil {
				cut() // the server's stream broke: so does ours
			}
			return
		}
	}
}

// output writes and flushes; with `left` >= 0 it cuts the stream when so many bytes are out.
type output struct {
	w        io.Writer
	flusher  *http.ResponseController
	bytewise bool
	left     int
}

func (o *output) Write(data []byte) (int, error) {
	last := o.left >= 0 && len(data) >= o.left
	if last {
		data = data[:o.left]
	}
	if o.left > 0 {
		o.left -= len(data)
	}
	step := len(data)
	if o.bytewise {
		step = 1
	}
	for rest := data; len(rest) > 0; rest = rest[min(step, len(rest)):] {
		if _, err := o.w.Write(rest[:min(step, len(rest))]); err != nil {
			return 0, err
		}
		o.flusher.Flush()
	}
	if last {
		cut()
	}
	return len(data), nil
}
