package main

import (
	"context"
	"fmt"
	"net/http"
)

// controlHandler serves POST /KEY/VERB, with which tests stop, pause and start the runtimes.
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

func startControl(ctx context.Context, socket string, runtimes []*containerd) (*httpServer, error) {
	s, err := serveHTTP(ctx, "unix", socket, controlHandler(runtimes))
	if err != nil {
		return nil, fmt.Errorf("control endpoint: %w", err)
	}
	return s, nil
}
