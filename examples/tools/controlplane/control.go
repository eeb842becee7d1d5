package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// description is the response to GET / on the control endpoint.
type description struct {
	URL              string // of the API server
	CA, CAKey        string // files with the authority's certificate and key
	Certificate, Key string // files with the API server's serving certificate and key
	Kubeconfig       string // the administrator's file
	Logs             string // folder
}

func (c *cluster) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(c.description())
	})
	mux.HandleFunc("GET /kubeconfig", answer(func(r *http.Request) ([]byte, error) {
		valid := lifetime
		if text := r.FormValue("valid"); text != "" {
			var err error
			if valid, err = time.ParseDuration(text); err != nil {
				return nil, err
			}
		}
		if r.FormValue("user") == "" {
			return nil, errors.New("user is required")
		}
		url := r.FormValue("server")
		if url == "" {
			url = c.url()
		}
		return c.kubeconfigFor(url, r.FormValue("user"), r.FormValue("group"), valid)
	}))
	mux.HandleFunc("GET /programs/{name}", answer(func(r *http.Request) ([]byte, error) {
		path, err := c.builder.program(r.Context(), r.PathValue("name"))
		return []byte(path), err
	}))
	mux.HandleFunc("POST /{component}/{verb}", answer(func(r *http.Request) ([]byte, error) {
		at, known := c.components[r.PathValue("component")]
		if !known {
			return nil, fmt.Errorf("unknown component %q", r.PathValue("component"))
		}
		verbs := map[string]func(context.Context) error{
			"start": at.start, "stop": at.stop, "kill": at.kill, "pause": at.pause, "resume": at.start,
		}
		do, known := verbs[r.PathValue("verb")]
		if !known {
			return nil, fmt.Errorf("unknown verb %q", r.PathValue("verb"))
		}
		return nil, do(r.Context())
	}))
	return mux
}

func answer(f func(*http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := f(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text)
	}
}

type control struct {
	server *http.Server
	done   chan error
}

func serveControl(ctx context.Context, socket string, handler http.Handler) (*control, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("control endpoint: %w", err)
	}
	s := &control{&http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}, make(chan error, 1)}
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

func (s *control) close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
