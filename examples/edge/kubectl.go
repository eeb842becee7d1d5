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

// withKubectl adds the endpoints of kubectl logs, exec, attach, cp and port-forward to a handler.
// Requests need the content of keyFile as a bearer token. Without the file all are refused.
func withKubectl(rest http.Handler, pods kubeletapi.Pods, runtime cri.RuntimeService, keyFile string) http.Handler {
	reader := must(logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime), Logger: slog.Default()}))
	api := must(kubeletapi.New(kubeletapi.Config{Pods: pods, Runtime: runtime, Logs: reader, MaxSessions: 32, Allow: func(r *http.Request) error {
		key, err := os.ReadFile(keyFile)
		if key = bytes.TrimSpace(key); err != nil || len(key) == 0 || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), append([]byte("Bearer "), key...)) != 1 {
			return errors.New("a valid bearer token is required")
		}
		return nil
	}}))
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	for _, path := range []string{"/containerLogs/", "/exec/", "/attach/", "/portForward/"} {
		mux.Handle(path, api)
	}
	return mux
}
