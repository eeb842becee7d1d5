package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// messages receives complete sets of pods. A set replaces the previous one, one pod at a time.
type messages struct {
	merger  *podsource.Merger
	decoder podsource.Decoder
	rollout *rollout
	// desired saves the set of the newest message, served the set that rollout derives from it.
	desired, served *podsource.Saved
}

const source = "messages"

func newMessages(merger *podsource.Merger, decoder podsource.Decoder, root string, minReady time.Duration) *messages {
	saved := func(inner syncloop.PodSource, dir string) *podsource.Saved {
		return must(podsource.NewSaved(podsource.SavedConfig{Inner: inner, Dir: filepath.Join(root, dir), Sources: []string{source}, Logger: slog.Default()}))
	}
	m := &messages{merger: merger, decoder: decoder, desired: saved(merger, "desired")}
	desired, _ := m.desired.Pods(source) // these are the saved sets, while merger has none
	served, _ := saved(merger, "served").Pods(source)
	m.rollout = newRollout(m.desired, served, minReady)
	m.served = saved(m.rollout, "served")
	must(0, merger.Set(source, desired, nil)) // each acknowledged message is on the disk, so this is the newest set
	return m
}

// handler adds two endpoints to a handler. "PUT /pods" with a PodList is a message; the reply is 204
// when it is on the disk. "GET /rollout" returns the state of the rollout.
func (m *messages) handler(rest http.Handler, allow func(*http.Request) error, emit func(syncloop.Event)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("PUT /pods", func(w http.ResponseWriter, r *http.Request) {
		if err := allow(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10<<20))
		pods, decodeErr := m.decoder.DecodeAll(body, source)
		if err = errors.Join(err, decodeErr); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		err = m.merger.Set(source, pods, emit)
		m.desired.Pods(source) // saves it
		if err = errors.Join(err, m.desired.Err()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /rollout", func(w http.ResponseWriter, _ *http.Request) {
		unready, waiting := m.rollout.progress()
		fmt.Fprintln(w, "not ready:", unready, "waiting:", waiting)
	})
	return mux
}
