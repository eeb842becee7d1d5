package agent

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/podwright/podwright/cri/kubeletapi"
)

// connected is the state of the agent's connection to the runtime: the parts that need it, or the
// reason why there is none. It is safe for concurrent use.
type connected struct {
	mu   sync.Mutex
	node *node
	err  error
}

func (c *connected) set(n *node, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node, c.err = n, err
}

func (c *connected) get() (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node, c.err
}

// from returns a function that reads a value of the connected parts. Without a connection it
// returns the zero value.
func from[T any](c *connected, read func(*node) T) func() T {
	return func() (none T) {
		if n, _ := c.get(); n != nil {
			return read(n)
		}
		return none
	}
}

// nodeOrRefusal returns the parts, or a 503 error for a request that needs them.
func (c *connected) nodeOrRefusal() (*node, error) {
	n, err := c.get()
	if n == nil {
		return nil, &kubeletapi.Refusal{Code: http.StatusServiceUnavailable, Message: fmt.Sprintf("no connection to the container runtime: %v", err)}
	}
	return n, nil
}

// handler serves requests with a handler of the connected parts. Without a connection it returns
// 503.
func (c *connected) handler(of func(*node) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := c.nodeOrRefusal()
		if err != nil {
			w.Header().Set("Retry-After", "1")
			kubeletapi.Refuse(w, err)
			return
		}
		of(n).ServeHTTP(w, r)
	})
}
