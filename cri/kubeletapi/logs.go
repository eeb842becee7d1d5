package kubeletapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/podwright/podwright/cri/logs"
)

// containerLogs serves /containerLogs: kubectl logs.
type containerLogs struct{ cfg Config }

func (c containerLogs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	options, previous, err := logOptions(r.URL.Query())
	if err != nil {
		Refuse(w, err)
		return
	}
	out := &flushed{w: w, control: http.NewResponseController(w), idle: c.cfg.IdleTimeout}
	stdout, stderr, err := pick(r.URL.Query(), out, options)
	if err != nil {
		Refuse(w, err)
		return
	}
	t := TargetOf(r)
	log, err := c.cfg.Pods.Log(r.Context(), t, previous)
	if err != nil {
		Refuse(w, err)
		return
	}
	err = c.cfg.Logs.Read(r.Context(), log, options, stdout, stderr)
	switch {
	case err == nil || out.begun: // after the first byte an error can only end the response
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, fmt.Sprintf("container %q in pod %q: the log was removed", t.Container, t.Pod), http.StatusNotFound)
	default:
		Refuse(w, err)
	}
}

func logOptions(query url.Values) (o logs.Options, previous bool, err error) {
	o.Follow, o.Timestamps, previous = flag(query, "follow"), flag(query, "timestamps"), flag(query, "previous")
	if o.TailLines, err = number(query, "tailLines", 0); err != nil {
		return o, false, err
	}
	limit, err := number(query, "limitBytes", 1)
	if err != nil {
		return o, false, err
	}
	if limit != nil {
		o.LimitBytes = *limit
	}
	if o.Since, err = seconds(query, "sinceSeconds"); err != nil {
		return o, false, err
	}
	if o.SinceTime, err = timestamp(query, "sinceTime"); err != nil {
		return o, false, err
	}
	if o.Since != 0 && !o.SinceTime.IsZero() {
		return o, false, badRequest("sinceSeconds, sinceTime: only one is allowed")
	}
	return o, previous, nil
}

// pick returns the writers of the requested streams (PodLogOptions.stream).
func pick(query url.Values, out io.Writer, o logs.Options) (stdout, stderr io.Writer, err error) {
	switch stream := query.Get("stream"); stream {
	case "", "All":
		return out, out, nil
	case "Stdout", "Stderr":
		if o.TailLines != nil {
			return nil, nil, badRequest("tailLines: counts the lines of both streams and is not allowed with stream " + stream)
		}
		if stream == "Stdout" {
			return out, nil, nil
		}
		return nil, out, nil
	default:
		return nil, nil, badRequest("stream: must be All, Stdout or Stderr")
	}
}

// flushed flushes each write, and fails when the client accepts no data for idle.
type flushed struct {
	w       http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	begun   bool
}

func (f *flushed) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		f.w.WriteHeader(http.StatusOK)
	}
	_ = f.control.SetWriteDeadline(time.Now().Add(f.idle))
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
