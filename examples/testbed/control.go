package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

// control serves POST /KEY/VERB on a unix socket, so that a test can end,
// pause and start the runtimes it uses.
type control struct {
	srv  *http.Server
	done chan error
}

func controlHandler(runtimes []*containerd) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range runtimes {
		verbs := map[string]func(context.Context) error{
			"stop": rt.stop, "kill": rt.kill, "pause": rt.pause, "resume": rt.resume, "start": rt.start,
		}
		for verb, do := range verbs {
			mux.HandleFunc("POST /"+rt.Key+"/"+verb, func(w http.ResponseWriter, r *http.Request) {
				if err := do(r.Context()); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			})
		}
	}
	return mux
}

func startControl(ctx context.Context, socket string, runtimes []*containerd) (*control, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("control endpoint: %w", err)
	}
	c := &control{
		srv:  &http.Server{Handler: controlHandler(runtimes), ErrorLog: log.New(io.Discard, "", 0)},
		done: make(chan error, 1),
	}
	go func() { c.done <- c.srv.Serve(l) }()
	return c, nil
}

func (c *control) close() error {
	err := c.srv.Close()
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
