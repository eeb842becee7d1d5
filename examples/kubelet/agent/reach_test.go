package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/examples/kubelet/server"
)

// urls hands out the requests as URLs.
type urls struct{}

func (urls) GetExec(r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: fmt.Sprintf("http://r/exec?%v&in=%v&out=%v&err=%v&tty=%v", strings.Join(r.Cmd, ","), r.Stdin, r.Stdout, r.Stderr, r.Tty)}, nil
}

func (urls) GetAttach(r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return &runtimeapi.AttachResponse{Url: fmt.Sprintf("http://r/attach?in=%v&out=%v&err=%v&tty=%v", r.Stdin, r.Stdout, r.Stderr, r.Tty)}, nil
}

func (urls) GetPortForward(r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return &runtimeapi.PortForwardResponse{Url: fmt.Sprintf("http://r/forward?%v", r.Port)}, nil
}

// spoken is a runtime whose containers say their name, and end with 1 if it is "crash".
func spoken() fake.Config {
	speak := func(ctx context.Context, p *fake.Process) int {
		name := p.Container.Name
		fmt.Fprintln(p.Stdout, name, "says", p.Container.Attempt)
		fmt.Fprintln(p.Stderr, name, "fails")
		if name == "crash" {
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
	return fake.Config{Programs: fake.Always(speak), Exec: fake.Always(run), Streams: urls{}, Checkpoints: true}
}

func requireRefusal(t testing.TB, err error, code int, text string) {
	t.Helper()
	r := new(server.Refusal)
	require.True(t, errors.As(err, &r), "%v", err)
	require.Equal(t, code, r.Code, r.Message)
	require.Contains(t, r.Message, text)
}

func TestReach(t *testing.T) {
	inWorld(t, spoken(), func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a", "tty", "crash")
		pod.Spec.Containers[1].TTY = true
		w.set(pod)
		w.start()
		w.sleep(15 * time.Second)
		r := reach{func() state { return state{node: w.agent} }}
		ctx := w.t.Context()
		at := func(name string) server.Target { return server.Target{Namespace: "ns", Pod: "pod-1", Container: name} }

		u, err := r.Exec(ctx, at("a"), server.Streams{Command: []string{"sh", "-c"}, Stdin: true, Stdout: true, TTY: true})
		require.NoError(w.t, err)
		require.Equal(w.t, "http://r/exec?sh,-c&in=true&out=true&err=false&tty=true", u.String())
		u, err = r.Attach(ctx, at("a"), server.Streams{Stdout: true, Stderr: true, TTY: true})
		require.NoError(w.t, err)
		require.Equal(w.t, "http://r/attach?in=false&out=true&err=true&tty=false", u.String(), "the spec tells whether there is a terminal")
		u, err = r.Attach(ctx, at("tty"), server.Streams{Stdout: true, Stderr: true})
		require.NoError(w.t, err)
		require.Equal(w.t, "http://r/attach?in=false&out=true&err=false&tty=true", u.String())
		u, err = r.PortForward(ctx, at(""), []int32{80, 81})
		require.NoError(w.t, err)
		require.Equal(w.t, "http://r/forward?[80 81]", u.String())

		out, err := r.Run(ctx, at("a"), []string{"echo", "x"})
		require.NoError(w.t, err)
		require.Equal(w.t, "echo x!", string(out))
		_, err = r.Run(ctx, at("a"), []string{"false"})
		require.ErrorContains(w.t, err, "false!")

		file, err := r.Checkpoint(ctx, at("a"), time.Second)
		require.NoError(w.t, err)
		require.Equal(w.t, filepath.Join(w.dir, "root/checkpoints"), filepath.Dir(file))
		_, err = os.Stat(file)
		require.NoError(w.t, err)

		running, err := r.RunningPods(ctx)
		require.NoError(w.t, err)
		require.Len(w.t, running, 1)
		require.Equal(w.t, types.UID("1"), running[0].UID)
		require.Len(w.t, running[0].Spec.Containers, 2, "what runs")

		for _, c := range []struct {
			target server.Target
			text   string
		}{
			{server.Target{Namespace: "ns", Pod: "none", Container: "a"}, `pod "ns/none"`},
			{server.Target{Namespace: "other", Pod: "pod-1", Container: "a"}, `pod "other/pod-1"`},
			{server.Target{Namespace: "ns", Pod: "pod-1", UID: "2", Container: "a"}, `pod "ns/pod-1"`},
			{at("none"), `container "none"`},
			{at("crash"), `does not run`},
		} {
			_, err := r.Exec(ctx, c.target, server.Streams{Command: []string{"ls"}, Stdout: true})
			requireRefusal(w.t, err, http.StatusNotFound, c.text)
			_, err = r.Attach(ctx, c.target, server.Streams{Stdout: true})
			requireRefusal(w.t, err, http.StatusNotFound, c.text)
			_, err = r.Checkpoint(ctx, c.target, 0)
			requireRefusal(w.t, err, http.StatusNotFound, c.text)
		}
		_, err = r.Run(ctx, server.Target{Namespace: "ns", Pod: "pod-1", UID: "1", Container: "a"}, []string{"ls"})
		require.NoError(w.t, err)
	})
}

func TestReachLogs(t *testing.T) {
	inWorld(t, spoken(), func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a", "crash"))
		w.start()
		w.sleep(25 * time.Second)
		r := reach{func() state { return state{node: w.agent} }}
		read := func(name string, request server.LogRequest) (string, error) {
			var out strings.Builder
			err := r.Logs(w.t.Context(), server.Target{Namespace: "ns", Pod: "pod-1", Container: name}, request, &out, &out)
			return out.String(), err
		}
		text, err := read("a", server.LogRequest{})
		require.NoError(w.t, err)
		require.Equal(w.t, "a says 0\na fails\n", text)
		last := int64(1)
		text, err = read("a", server.LogRequest{Options: logs.Options{TailLines: &last}})
		require.NoError(w.t, err)
		require.Equal(w.t, "a fails\n", text)
		text, err = read("crash", server.LogRequest{})
		require.NoError(w.t, err)
		newest := uint32(0)
		for _, c := range w.containers() {
			newest = max(newest, c.Metadata.Attempt)
		}
		require.NotZero(w.t, newest)
		require.Equal(w.t, fmt.Sprintf("crash says %d\ncrash fails\n", newest), text, "between two crashes the last one")
		text, err = read("crash", server.LogRequest{Previous: true})
		require.NoError(w.t, err)
		require.NotEmpty(w.t, text)

		_, err = read("a", server.LogRequest{Previous: true})
		requireRefusal(w.t, err, http.StatusBadRequest, `container "a"`)
		_, err = read("none", server.LogRequest{})
		requireRefusal(w.t, err, http.StatusNotFound, `container "none"`)
		require.NoError(w.t, os.RemoveAll(w.logs()))
		_, err = read("a", server.LogRequest{})
		requireRefusal(w.t, err, http.StatusNotFound, "not there any more")
	})
}

// While the runtime is away, whoever asks is told so.
func TestReachWithoutARuntime(t *testing.T) {
	r := reach{func() state { return state{err: errors.New("not connected yet")} }}
	require.Implements(t, (*server.Pods)(nil), r)
	err := r.Logs(t.Context(), server.Target{}, server.LogRequest{}, io.Discard, io.Discard)
	requireRefusal(t, err, http.StatusServiceUnavailable, "not connected yet")
	_, err = r.RunningPods(t.Context())
	requireRefusal(t, err, http.StatusServiceUnavailable, "not connected yet")
}
