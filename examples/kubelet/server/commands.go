package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/kubeletapi"
)

// NewCommands returns the handler of /run, /checkpoint and /runningpods.
func NewCommands(p Pods) http.Handler {
	mux := http.NewServeMux()
	for _, path := range container {
		mux.Handle("POST /run/"+path, runCommand(p))
	}
	mux.Handle("POST /checkpoint/"+container[0], checkpoint(p))
	for _, path := range []string{"", "/{$}"} {
		mux.Handle("GET /runningpods"+path, runningPods(p))
	}
	return mux
}

// runCommand serves /run: it runs a command to its end and returns its output.
func runCommand(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		command := strings.Fields(r.URL.Query().Get("cmd"))
		if len(command) == 0 {
			http.Error(w, "cmd: a command is required", http.StatusBadRequest)
			return
		}
		out, err := p.Run(r.Context(), kubeletapi.TargetOf(r), command)
		if err != nil {
			kubeletapi.Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(out)
	})
}

// checkpoint serves /checkpoint (KEP-2008).
func checkpoint(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout, err := seconds(r.URL.Query().Get("timeout"))
		if err != nil {
			http.Error(w, "timeout: "+err.Error(), http.StatusBadRequest)
			return
		}
		file, err := p.Checkpoint(r.Context(), kubeletapi.TargetOf(r), timeout)
		if err != nil {
			kubeletapi.Refuse(w, err)
			return
		}
		writeJSON(w, struct {
			Items []string `json:"items"`
		}{[]string{file}})
	})
}

// seconds parses a whole number of seconds, or "" as zero. Larger values than a Duration become its
// largest one.
func seconds(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a whole number of seconds", text)
	}
	return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second, nil
}

func runningPods(p Pods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items, err := p.RunningPods(r.Context())
		if err != nil {
			kubeletapi.Refuse(w, err)
			return
		}
		writeJSON(w, v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: items})
	})
}
