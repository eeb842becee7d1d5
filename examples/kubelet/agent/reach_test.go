package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
)

func requireRefusal(t testing.TB, err error, code int, text string) {
	t.Helper()
	r := new(kubeletapi.Refusal)
	require.True(t, errors.As(err, &r), "%v", err)
	require.Equal(t, code, r.Code, r.Message)
	require.Contains(t, r.Message, text)
}

// Sessions and refusals are those of cri/podsyncer (TestReach). The agent adds commands, checkpoints and lists.
func TestReach(t *testing.T) {
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
		r := reach{func() state { return state{node: w.agent} }}
		ctx := w.t.Context()
		at := func(name string) kubeletapi.Target {
			return kubeletapi.Target{Namespace: "ns", Pod: "pod-1", Container: name}
		}

		log, err := r.Log(ctx, at("a"), false)
		require.NoError(w.t, err)
		var text strings.Builder
		require.NoError(w.t, r.Read(ctx, log, logs.Options{}, &text, nil))
		require.Equal(w.t, "a says 0\n", text.String())

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
		require.Len(w.t, pods[0].Spec.Containers, 2, "what runs")

		_, err = r.Checkpoint(ctx, at("crash"), 0)
		requireRefusal(w.t, err, http.StatusNotFound, "crash")
		_, err = r.Run(ctx, at("crash"), []string{"ls"})
		requireRefusal(w.t, err, http.StatusNotFound, "crash")
	})
}

// While the runtime is away, whoever asks is told so.
func TestReachWithoutARuntime(t *testing.T) {
	r := reach{func() state { return state{err: errors.New("not connected yet")} }}
	ctx, at := t.Context(), kubeletapi.Target{}
	for what, ask := range map[string]func() error{
		"RunningContainer": func() error { _, err := r.RunningContainer(ctx, at); return err },
		"RunningSandbox":   func() error { _, err := r.RunningSandbox(ctx, at); return err },
		"Log":              func() error { _, err := r.Log(ctx, at, false); return err },
		"Read":             func() error { return r.Read(ctx, logs.Log{}, logs.Options{}, io.Discard, io.Discard) },
		"Exec":             func() error { _, err := r.Exec(ctx, nil); return err },
		"Attach":           func() error { _, err := r.Attach(ctx, nil); return err },
		"PortForward":      func() error { _, err := r.PortForward(ctx, nil); return err },
		"Run":              func() error { _, err := r.Run(ctx, at, nil); return err },
		"Checkpoint":       func() error { _, err := r.Checkpoint(ctx, at, 0); return err },
		"RunningPods":      func() error { _, err := r.RunningPods(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) { requireRefusal(t, ask(), http.StatusServiceUnavailable, "not connected yet") })
	}
}
