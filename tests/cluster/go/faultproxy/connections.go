package main

import (
	"net"
	"sync"
)

// connections are those of the clients, all of which can be frozen (as if a cable were pulled: nothing is read or written,
// nothing closed), thawed and closed.
type connections struct {
	mutex  sync.Mutex
	thawed *sync.Cond
	frozen bool
	open   map[*connection]struct{}
}

func newConnections() *connections {
	c := &connections{open: map[*connection]struct{}{}}
	c.thawed = sync.NewCond(&c.mutex)
	return c
}

func (c *connections) freeze(frozen bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.frozen = frozen
	c.thawed.Broadcast()
}

func (c *connections) wait() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for c.frozen {
		c.thawed.Wait()
	}
}

func (c *connections) close() int {
	c.mutex.Lock()
	open := make([]*connection, 0, len(c.open))
	for one := range c.open {
		open = append(open, one)
	}
	c.mutex.Unlock()
	for _, one := range open {
		one.Conn.Close()
	}
	return len(open)
}

type connection struct {
	net.Conn
	all *connections
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.all.wait()
	return n, err
}

func (c *connection) Write(p []byte) (int, error) {
	c.all.wait()
	return c.Conn.Write(p)
}

func (c *connection) Close() error {
	c.all.mutex.Lock()
	delete(c.all.open, c)
	c.all.mutex.Unlock()
	return c.Conn.Close()
}

type listener struct {
	net.Listener
	all *connections
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &connection{Conn: c, all: l.all}
	l.all.mutex.Lock()
	l.all.open[one] = struct{}{}
	l.all.mutex.Unlock()
	return one, nil
}
