package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/examples/kubelet/config"
)

func requireRefusal(t testing.TB, err error, code int, text string) {
	t.Helper()
	r := new(kubeletapi.Refusal)
	require.True(t, errors.As(err, &r), "%v", err)
	require.Equal(t, code, r.Code, r.Message)
	require.Contains(t, r.Message, text)
}

// The feature gate ContainerCheckpoint removes /checkpoint only.
func TestCheckpointGate(t *testing.T) {
	for gate, code := range map[string]int{"": http.StatusBadRequest, "ContainerCheckpoint": http.StatusNotFound} {
		cfg := &Config{Config: config.Default()}
		cfg.Kubelet.FeatureGates = map[string]bool{gate: false}
		h := newCommands(cfg, commands{})
		for path, want := range map[string]int{"/checkpoint/ns/p/c?timeout=x": code, "/run/ns/p/c": http.StatusBadRequest} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
			require.Equal(t, want, w.Code, gate+path)
		}
	}
}

// cri/podsyncer tests sessions and refusals (TestReach). The agent adds commands, checkpoints and
// lists.
func TestCommands(t *testing.T) {
	speak := func(ctx context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, p.Container.Name, "says", p.Container.Attempt)
		if p.Container.Name == "crash" {
			return 1
		}
		<-ctx.Done()
		return 0
	}
	run := func(_ context.Context, p *fake.Process) int {
		fmt.Fprint(p.Stdout, strings.Join(p.Args, " "))
		fmt.Fprint(p.Stderr, "!")
		if p.Args[0] == "false" {
			return 3
		}
		return 0
	}
	inWorld(t, fake.Config{Programs: fake.Always(speak), Exec: fake.Always(run), Checkpoints: true}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a", "b", "crash"))
		w.startFor(15 * time.Second)
		r := commands{runtime: w.calls, syncer: w.agent.syncer, dir: filepath.Join(w.dir, "root/checkpoints")}
		ctx := w.t.Context()
		at := func(name string) kubeletapi.Target {
			return kubeletapi.Target{Namespace: "ns", Pod: "pod-1", Container: name}
		}

		text := httptest.NewRecorder()
		w.agent.sessions.ServeHTTP(text, httptest.NewRequestWithContext(ctx, http.MethodGet, "/containerLogs/ns/pod-1/a", nil))
		require.Equal(w.t, "a says 0\n", text.Body.String())

		out, err := r.Run(ctx, at("a"), []string{"echo", "x"})
		require.NoError(w.t, err)
		require.Equal(w.t, "echo x!", string(out))
		_, err = r.Run(ctx, at("a"), []string{"false"})
		require.ErrorContains(w.t, err, "false!")
		file, err := r.Checkpoint(ctx, at("a"), time.Second)
		require.NoError(w.t, err)
		require.Equal(w.t, filepath.Join(w.dir, "root/checkpoints"), filepath.Dir(file))
		require.FileExists(w.t, file)

		pods, err := r.RunningPods(ctx)
		require.NoError(w.t, err)
		require.Len(w.t, pods, 1)
		require.Equal(w.t, types.UID("1"), pods[0].UID)
		require.Len(w.t, pods[0].Spec.Containers, 2, "running pods")

		_, err = r.Checkpoint(ctx, at("crash"), 0)
		requireRefusal(w.t, err, http.StatusNotFound, "crash")
		_, err = r.Run(ctx, at("crash"), []string{"ls"})
		requireRefusal(w.t, err, http.StatusNotFound, "crash")
	})
}

// Without a connection to the runtime, endpoints that need it return 503 with the reason.
func TestCommandsWithoutARuntime(t *testing.T) {
	a, err := New(configOf(t.TempDir(), noRuntime))
	require.NoError(t, err)
	endpoints, err := a.newEndpoints(nil)
	require.NoError(t, err)
	for _, request := range []string{
		"GET /containerLogs/ns/p/c", "POST /exec/ns/p/c", "POST /attach/ns/p/c", "POST /portForward/ns/p",
		"POST /run/ns/p/c?cmd=ls", "POST /checkpoint/ns/p/c", "GET /runningpods/", "GET /stats/summary", "GET /metrics/resource", "GET /metrics/cadvisor",
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		endpoints.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		require.Equal(t, http.StatusServiceUnavailable, w.Code, request)
		require.Equal(t, "1", w.Header().Get("Retry-After"), request)
		require.Contains(t, w.Body.String(), "not running yet", request)
	}
}
