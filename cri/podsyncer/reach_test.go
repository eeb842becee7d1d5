package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
)

// crashing ends containers of the name "crash" with 1; all others run.
func crashing(ctx context.Context, p *fake.Process) int {
	fmt.Fprintln(p.Stdout, p.Container.Name, "says", p.Container.Attempt)
	if p.Container.Name == "crash" {
		return 1
	}
	<-ctx.Done()
	return 0
}

func requireRefusal(t *testing.T, err error, code int, text string) {
	t.Helper()
	r := new(kubeletapi.Refusal)
	require.True(t, errors.As(err, &r), "%v", err)
	require.Equal(t, code, r.Code, r.Message)
	require.Contains(t, r.Message, text)
}

func TestReach(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.Always(crashing)}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a", "tty", "crash")
		pod.Spec.Containers[1].TTY = true
		w.run(15*time.Second, pod)
		ctx := w.t.Context()
		at := func(uid types.UID, name string) kubeletapi.Target {
			return kubeletapi.Target{Namespace: "ns", Pod: "pod-1", UID: uid, Container: name}
		}
		for _, uid := range []types.UID{"", "1"} {
			for name, tty := range map[string]bool{"a": false, "tty": true} {
				c, err := w.agent.RunningContainer(ctx, at(uid, name))
				require.NoError(w.t, err)
				require.Equal(w.t, tty, c.TTY)
				status, err := w.runtime.ContainerStatus(ctx, c.ID, false)
				require.NoError(w.t, err)
				require.Equal(w.t, name, status.Status.Metadata.Name)
			}
		}
		sandbox, err := w.agent.RunningSandbox(ctx, at("", ""))
		require.NoError(w.t, err)
		require.Equal(w.t, w.Sandboxes()[0].Id, sandbox)

		for _, c := range []struct {
			target kubeletapi.Target
			text   string
		}{
			{kubeletapi.Target{Namespace: "ns", Pod: "none", Container: "a"}, `pod "ns/none"`},
			{kubeletapi.Target{Namespace: "other", Pod: "pod-1", Container: "a"}, `pod "other/pod-1"`},
			{at("2", "a"), `pod "ns/pod-1"`},
			{at("", "none"), `container "none"`},
		} {
			_, err := w.agent.RunningContainer(ctx, c.target)
			requireRefusal(w.t, err, http.StatusNotFound, c.text)
			_, err = w.agent.Log(ctx, c.target, false)
			requireRefusal(w.t, err, http.StatusNotFound, c.text)
		}
		_, err = w.agent.RunningContainer(ctx, at("", "crash"))
		requireRefusal(w.t, err, http.StatusNotFound, "is not running")
		_, err = w.agent.RunningSandbox(ctx, at("2", ""))
		requireRefusal(w.t, err, http.StatusNotFound, `pod "ns/pod-1"`)
		require.NoError(w.t, w.runtime.StopPodSandbox(ctx, sandbox))
		_, err = w.agent.PLEG().Observe(ctx, "1", time.Now())
		require.NoError(w.t, err)
		_, err = w.agent.RunningSandbox(ctx, at("", ""))
		if err == nil { // a new sandbox is ready already
			require.NotEqual(w.t, sandbox, must(w.agent.RunningSandbox(ctx, at("", ""))))
		}
	})
}

// Log returns the newest instance of a crashing container, and with previous the last ended instance;
// after a crash of the agent also before the first observation.
func TestLogsOfInstances(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.Always(crashing)}, func(w *harness) {
		w.run(25*time.Second, newPod("1", v1.RestartPolicyAlways, "a", "crash"))
		at := func(name string) kubeletapi.Target {
			return kubeletapi.Target{Namespace: "ns", Pod: "pod-1", Container: name}
		}
		instance := func(name string, previous bool) (string, error) {
			log, err := w.agent.Log(w.t.Context(), at(name), previous)
			if err != nil {
				return "", err
			}
			_, err = os.Stat(log.Path)
			return log.ContainerID, err
		}
		list := w.Containers()
		newest := list[slices.IndexFunc(list, func(c *runtimeapi.Container) bool { return c.Metadata.Name == "crash" })].Id
		id, err := instance("crash", false)
		require.NoError(w.t, err)
		require.Equal(w.t, newest, id, "between two crashes the last one")
		id, err = instance("crash", true)
		require.NoError(w.t, err)
		require.NotEmpty(w.t, id)
		_, err = instance("a", true)
		requireRefusal(w.t, err, http.StatusBadRequest, logs.ErrNoPrevious.Error())

		w.crash()
		w.agent = w.newNode() // it does not run
		require.NoError(w.t, w.agent.merger.Set("file", w.desired, nil))
		w.agent.desired.Set(w.desired[0])
		_, err = instance("a", false)
		require.NoError(w.t, err, "the status that was saved tells")
		require.NoError(w.t, os.Remove(w.statusFile("1")))
		_, err = instance("a", false)
		requireRefusal(w.t, err, http.StatusBadRequest, logs.ErrNoLogs.Error())
	})
}
