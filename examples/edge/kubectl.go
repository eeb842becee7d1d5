package main

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"os"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
)

// bearer returns a function that refuses requests without the content of a file as bearer token.
// Without the file it refuses all. The file is read for each request, so that the key can change.
func bearer(keyFile string) func(r *http.Request) error {
	return func(r *http.Request) error {
		key, err := os.ReadFile(keyFile)
		key = bytes.TrimSpace(key)
		want, got := append([]byte("Bearer "), key...), []byte(r.Header.Get("Authorization"))
		if err != nil || len(key) == 0 || subtle.ConstantTimeCompare(got, want) != 1 {
			return errors.New("a valid bearer token is required")
		}
		return nil
	}
}

// withKubectl adds the endpoints of kubectl logs, exec, attach, cp and port-forward to a handler.
func withKubectl(rest http.Handler, pods kubeletapi.Pods, runtime cri.RuntimeService, allow func(*http.Request) error) http.Handler {
	reader := must(logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime), Logger: slog.Default()}))
	api := must(kubeletapi.New(kubeletapi.Config{Pods: pods, Runtime: runtime, Logs: reader, MaxSessions: 32, Allow: allow}))
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	for _, path := range []string{"/containerLogs/", "/exec/", "/attach/", "/portForward/"} {
		mux.Handle(path, api)
	}
	return mux
}
