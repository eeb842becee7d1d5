package server

import (
	"io"
	"net/http"
	"net/url"
)

// containerLogs serves /containerLogs: kubectl logs.
func containerLogs(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := logRequest(r.URL.Query())
		if err != nil {
			refuse(w, err)
			return
		}
		out := &flushed{w: w, control: http.NewResponseController(w)}
		stdout, stderr, err := pick(r.URL.Query(), out, request)
		if err != nil {
			refuse(w, err)
			return
		}
		err = p.Logs(r.Context(), target(r), request, stdout, stderr)
		if err != nil && !out.begun {
			refuse(w, err)
		}
	})
}

func logRequest(query url.Values) (LogRequest, error) {
	var r LogRequest
	var err error
	r.Follow, _ = flag(query, "follow")
	r.Previous, _ = flag(query, "previous")
	r.Timestamps, _ = flag(query, "timestamps")
	if r.TailLines, err = number(query, "tailLines", 0); err != nil {
		return r, err
	}
	limit, err := number(query, "limitBytes", 1)
	if err != nil {
		return r, err
	}
	if limit != nil {
		r.LimitBytes = *limit
	}
	if r.Since, err = seconds(query, "sinceSeconds", 1); err != nil {
		return r, err
	}
	if r.SinceTime, err = moment(query, "sinceTime"); err != nil {
		return r, err
	}
	if r.Since != 0 && !r.SinceTime.IsZero() {
		return r, bad("sinceSeconds, sinceTime: only one of them can be given")
	}
	return r, nil
}

// pick returns the writers of the streams that are wanted (PodLogOptions.stream).
func pick(query url.Values, out io.Writer, r LogRequest) (stdout, stderr io.Writer, err error) {
	switch stream := query.Get("stream"); stream {
	case "", "All":
		return out, out, nil
	case "Stdout", "Stderr":
		if r.TailLines != nil {
			return nil, nil, bad("tailLines: counts the lines of both streams, and cannot be given with stream: " + stream)
		}
		if stream == "Stdout" {
			return out, nil, nil
		}
		return nil, out, nil
	default:
		return nil, nil, bad("stream: is none of All, Stdout, Stderr")
	}
}

// flushed sends each write at once.
type flushed struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (f *flushed) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		f.w.WriteHeader(http.StatusOK)
	}
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
