package podsyncer

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/labels"
)

// owners returns the owners of the running containers by pod UID, and of the log directories.
func (w *harness) owners() (running, logs map[string]string) {
	running, logs = map[string]string{}, map[string]string{}
	for _, c := range w.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running[c.Labels[labels.PodUID]] = c.Labels[cri.LabelOwner]
		}
	}
	dirs, err := os.ReadDir(w.logs())
	require.NoError(w.t, err)
	for _, d := range dirs {
		name, _ := os.ReadFile(filepath.Join(w.logs(), d.Name(), ".owner"))
		logs[d.Name()[strings.LastIndexByte(d.Name(), '_')+1:]] = string(name)
	}
	return running, logs
}

// Three agents on one runtime, with one folder of logs, see and remove only their own pods, also
// when they start without desired pods and when pods come and go.
func TestAgentsOfOneRuntime(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		require.NoError(t, os.MkdirAll(w.logs(), 0o755))
		all := map[string]*harness{"": w.beside(cri.Owner{Unlabelled: true}), "edge": w.beside(cri.Owner{Name: "edge"}), "test": w}
		want := map[string]string{}
		for name, one := range all {
			one.start()
			defer func() {
				if one != w {
					one.stop()
				}
			}()
			for _, uid := range []string{"1", "2"} {
				want[name+uid] = name
			}
		}
		pod := func(uid string) *v1.Pod { return newPod(types.UID(uid), v1.RestartPolicyAlways, "a") }
		for range 3 { // churn of the second pods
			for name, one := range all {
				one.set(pod(name+"1"), pod(name+"2"))
			}
			w.Sleep(5 * time.Second)
			running, logs := w.owners()
			require.Equal(t, want, running)
			require.Equal(t, want, logs)
			for name, one := range all {
				require.Len(t, one.agent.PLEG().Pods(), 2, name)
				one.set(pod(name + "1"))
			}
			w.Sleep(10 * time.Second)
			running, _ = w.owners()
			require.Equal(t, map[string]string{"1": "", "edge1": "edge", "test1": "test"}, running)
		}
		all["edge"].crash() // the next agent with the owner finds its pod
		all["edge"].set()
		all["edge"].start()
		w.Sleep(10 * time.Second)
		running, logs := w.owners()
		require.Equal(t, map[string]string{"1": "", "test1": "test"}, running)
		require.Equal(t, map[string]string{"1": "", "test1": "test"}, logs)
		require.Equal(t, map[string][]uint32{"a": {0, 0}}, w.Running(), "no pod was restarted")
	})
}

// An agent takes over the unlabelled pods that it desires, without a restart, and only these. They
// stay adopted: also the next agent removes one that is no longer desired.
func TestAdoptUnlabelled(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		mine, later, foreign := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a"), newPod("3", v1.RestartPolicyAlways, "a")
		w.owner = cri.Owner{Unlabelled: true}
		w.run(5*time.Second, mine, later, foreign)
		w.crash()

		w.owner = cri.Owner{Name: "test"}
		w.run(10*time.Second, mine)
		running, logs := w.owners()
		untouched := map[string]string{"1": "", "2": "", "3": ""}
		require.Equal(t, untouched, running)
		require.Equal(t, untouched, logs)
		require.Contains(t, w.events.of("1", "FailedCreatePodSandBox")[0].message, "belongs to another owner")
		w.stop()

		w.adopt = true
		w.run(10*time.Second, later)
		require.Equal(t, map[string][]uint32{"a": {0, 0, 0}}, w.Running(), "no pod was restarted")
		_, logs = w.owners()
		require.Equal(t, map[string]string{"1": "", "2": "test", "3": ""}, logs)
		w.crash()
		w.set()
		w.start()
		w.Sleep(10 * time.Second)
		running, logs = w.owners()
		require.Equal(t, map[string]string{"1": "", "3": ""}, running)
		require.Equal(t, map[string]string{"1": "", "3": ""}, logs)
		require.Empty(t, w.agent.adopter.adopted)
	})
}

// A pod that becomes desired after the first relist is adopted before its sync, so that it never
// gets a second sandbox. Here its sandbox has a later attempt, and no name conflict prevents one.
func TestAdoptLate(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		late := newPod("1", v1.RestartPolicyAlways, "a")
		w.owner = cri.Owner{Unlabelled: true}
		w.run(5*time.Second, late)
		first := must(w.runtime.ListPodSandbox(w.t.Context(), nil))[0].Id
		require.NoError(w.t, w.runtime.CrashSandbox(w.t.Context(), first))
		w.Sleep(time.Minute)
		before := w.Running()
		w.crash()
		require.NoError(w.t, w.runtime.RemovePodSandbox(w.t.Context(), first))

		w.owner, w.adopt = cri.Owner{Name: "test"}, true
		w.run(5 * time.Second)
		w.set(late)
		w.Sleep(10 * time.Second)
		require.Equal(w.t, before, w.Running())
		require.Empty(w.t, w.events.of("1", "FailedCreatePodSandBox"))
	})
}

// withEndpoint is a runtime behind a socket.
type withEndpoint struct {
	pods.Runtime
	endpoint string
}

func (w withEndpoint) Endpoint() string { return w.endpoint }

// A second agent of an owner is refused. If the default folder of the lock is not writable, the
// agent uses the temporary folder, with a warning.
func TestOwnerIsLocked(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for endpoint, warnings := range map[string]int{"unix://" + t.TempDir() + "/run/r.sock": 0, "unix://" + os.TempDir() + "/r.sock": 0, "unix:///sys/r.sock": 1} {
		var log strings.Builder
		inHarness(t, fake.Config{}, func(w *harness) {
			cfg := w.config(&node{})
			cfg.Pods.Runtime = withEndpoint{cfg.Pods.Runtime, endpoint}
			cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			first, second := must(New(cfg)), must(New(cfg))
			w.ownerLocks(first, second)
			cfg.LockFolder = w.t.TempDir()
			w.ownerLocks(must(New(cfg)), must(New(cfg)))
		})
		require.Equal(t, warnings, strings.Count(log.String(), "set LockFolder"), log.String())
	}
}

// ownerLocks fails the test unless the second agent is refused while the first one has the lock.
func (w *harness) ownerLocks(first, second *Syncer) {
	lock, err := first.lockOwner()
	require.NoError(w.t, err)
	require.ErrorIs(w.t, second.Run(w.t.Context()), cri.ErrOwnerInUse)
	require.NoError(w.t, lock.Close())
}
