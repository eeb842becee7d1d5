package server

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runCommand serves /run: a command to its end, and what it has written.
func runCommand(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		command := strings.Fields(r.URL.Query().Get("cmd"))
		if len(command) == 0 {
			http.Error(w, "cmd: run needs a command", http.StatusBadRequest)
			return
		}
		out, err := p.Run(r.Context(), target(r), command)
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(out)
	})
}

// checkpoint serves /checkpoint (KEP-2008).
func checkpoint(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout, err := seconds(r.URL.Query(), "timeout", 0)
		if err != nil {
			refuse(w, err)
			return
		}
		file, err := p.Checkpoint(r.Context(), target(r), timeout)
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, struct {
			Items []string `json:"items"`
		}{[]string{file}})
	})
}

// runningPods serves /runningpods/.
func runningPods(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items, err := p.RunningPods(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: items})
	})
}
