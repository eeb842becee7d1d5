package kubeletapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures the handler. Allow, Pods, Runtime and Logs are required.
type Config struct {
	// Allow authorizes each request before any other step. Nil permits it, a *Refusal, wrapped or
	// not, sets the status, any other error gives 403. A refused request closes its connection. It
	// is called concurrently.
	// Required: exec has the rights of the container.
	Allow func(*http.Request) error
	// Pods finds containers and sandboxes. Required.
	Pods Pods
	// Runtime prepares sessions. Required.
	Runtime cri.Streamer
	// Logs reads logs: a *logs.Reader. Required.
	Logs LogReader
	// IdleTimeout ends a session after this time without traffic, and a log request whose client
	// does not read for this time. Default: 4 h, as in upstream kubelets
	// (streamingConnectionIdleTimeout).
	IdleTimeout time.Duration
	// MaxSessions bounds the sum of sessions and log readers. Another request gets status 429. A
	// refused request counts until its response ends. Default: 1000.
	MaxSessions int
}

func (c *Config) complete() error {
	f := fields.Of("kubeletapi: Config")
	f.Required("Allow", c.Allow)
	f.Required("Pods", c.Pods)
	f.Required("Runtime", c.Runtime)
	f.Required("Logs", c.Logs)
	fields.Number(f, "IdleTimeout", &c.IdleTimeout, 4*time.Hour)
	fields.Number(f, "MaxSessions", &c.MaxSessions, 1000)
	return f.Err()
}

// New returns the handler. Other paths get status 404, other methods 405. A malformed query, and a
// session request without an upgrade, get 400, an absent object 404, a session whose URL is
// unreachable 502. For other errors see Refuse. After the first byte of a log, an error only ends
// the response.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	const pod, container = "/{namespace}/{pod}", "/{namespace}/{pod}/{container}"
	const podWithUID, containerWithUID = "/{namespace}/{pod}/{uid}", "/{namespace}/{pod}/{uid}/{container}"
	mux, places := http.NewServeMux(), make(limiter, cfg.MaxSessions)
	mux.Handle("GET /containerLogs"+container, places.limit(containerLogs{cfg}))
	for root, s := range map[string]struct {
		paths [2]string
		open  opener
	}{
		"/exec":        {[2]string{container, containerWithUID}, cfg.openExec},
		"/attach":      {[2]string{container, containerWithUID}, cfg.openAttach},
		"/portForward": {[2]string{pod, podWithUID}, cfg.openPortForward},
	} {
		for _, path := range s.paths {
			session := places.limit(sessions{s.open, cfg.IdleTimeout})
			mux.Handle("GET "+root+path, session)
			mux.Handle("POST "+root+path, session)
		}
	}
	return allowed(cfg.Allow, mux), nil
}

func allowed(allow func(*http.Request) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := allow(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		// The server must not wait for the body of a client without permission.
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // fails only without a connection
		http.Error(w, err.Error(), statusOf(err, http.StatusForbidden))
	})
}

type limiter chan struct{}

// limit sends 429 when the limit is reached.
func (l limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case l <- struct{}{}:
			defer func() { <-l }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("too many open sessions and log readers (limit %d), try again later", cap(l)), http.StatusTooManyRequests)
		}
	})
}
