package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

// churnOfOwners is the duration of the churn in TestOwners.
const churnOfOwners = 30 * time.Second

// owned is an agent of package podsyncer with an owner, on the runtime of a scene.
type owned struct {
	owner  string
	merger *podsource.Merger
	config podsyncer.Config
	syncer *podsyncer.Syncer
	stop   func()
}

// newOwned starts an agent. Its logs are in the folder of the kubelet's logs.
func newOwned(t *testing.T, s *scene, owner string) *owned {
	t.Helper()
	o := &owned{owner: owner}
	runtime, err := cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: s.endpoint})
	require.NoError(t, err)
	service, err := cri.DialImages(t.Context(), cri.ClientConfig{Endpoint: s.endpoint})
	require.NoError(t, err)
	folders, err := podfolder.New(podfolder.Config{Root: filepath.Join(t.TempDir(), "pods")})
	require.NoError(t, err)
	pulls, err := images.New(images.Config{Service: service})
	require.NoError(t, err)
	prober, err := exec.New(exec.Config{Runtime: runtime})
	require.NoError(t, err)
	list, err := stages.New(stages.Config{Stages: []stages.Entry{{Name: "folder", Release: stages.Gone, Stage: folders}}})
	require.NoError(t, err)
	store, err := checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(folders.Pod(uid), "status.json") }})
	require.NoError(t, err)
	o.merger, err = podsource.NewMerger(podsource.MergerConfig{Sources: []string{"test"}})
	require.NoError(t, err)
	o.config = podsyncer.Config{
		Pods: pods.Config{
			Owner: cri.Owner{Name: owner}, Runtime: runtime, RuntimeName: runtime.Name(), Images: pulls, LogRoot: s.logs, PodDir: folders.Pod,
		},
		Probes:     probe.Config{Probers: map[probe.Handler]probe.Prober{probe.Exec: prober}},
		Stages:     list,
		Checkpoint: store,
		Loop:       syncloop.Config{Pods: o.merger},
	}
	o.syncer, err = podsyncer.New(o.config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.syncer.Run(ctx) }()
	o.stop = func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, service.Close())
		require.NoError(t, runtime.Close())
	}
	return o
}

// set sets the desired pods, named OWNER-NUMBER-NODE.
func (o *owned) set(t *testing.T, s *scene, numbers ...int) {
	t.Helper()
	var desired []*v1.Pod
	for _, n := range numbers {
		pod := newPod(fmt.Sprintf("%s-%d-%s", o.owner, n, s.node), testprog(s.images.Testprog, "run"))
		pod.UID, pod.Namespace = types.UID(pod.Name), "default"
		desired = append(desired, pod)
	}
	require.NoError(t, o.merger.Set("test", desired, o.syncer.Loop().Emit))
}

// Two agents with owners and the kubelet share a runtime and a folder of logs. Under churn, none
// touches the pods of another. A second agent with the same owner is refused.
func TestOwners(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		agents := []*owned{newOwned(t, s, "edge"), newOwned(t, s, "operator")}
		s.writeManifest(t, "static-1.yaml", newPod("static-1", testprog(s.images.Testprog, "run")))
		for _, o := range agents {
			o.set(t, s, 1)
		}
		stable := []string{"edge-1", "operator-1", "static-1"}
		ids := func() (out map[string]string, err error) {
			state, err := s.runtimeState()
			if err != nil {
				return nil, err
			}
			out = map[string]string{}
			for _, name := range stable {
				running := state.of(name).running()
				if len(running) != 1 {
					return nil, fmt.Errorf("%s has %d running containers", name, len(running))
				}
				out[name] = running[0].Id
			}
			return out, nil
		}
		var before map[string]string
		wait(t, 40*time.Second, "the stable pods run", func() (err error) { before, err = ids(); return err })

		second, err := podsyncer.New(agents[0].config)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, second.Run(soon), cri.ErrOwnerInUse)

		end := time.Now().Add(churnOfOwners)
		for round := 2; time.Now().Before(end); round++ {
			for _, o := range agents {
				o.set(t, s, 1, round)
			}
			s.writeManifest(t, "static-2.yaml", newPod(fmt.Sprint("static-", round), testprog(s.images.Testprog, "run")))
			wait(t, 20*time.Second, "the changing pods run", func() error {
				state, err := s.runtimeState()
				for _, owner := range []string{"edge", "operator", "static"} {
					if err == nil && len(state.of(fmt.Sprint(owner, "-", round)).running()) != 1 {
						err = fmt.Errorf("%s-%d does not run", owner, round)
					}
				}
				return err
			})
			after, err := ids()
			require.NoError(t, err)
			require.Equal(t, before, after, "no stable pod was restarted")
		}
		for _, o := range agents {
			o.set(t, s)
		}
		wait(t, 40*time.Second, "the agents' pods are removed", func() error {
			state, err := s.runtimeState()
			if err != nil {
				return err
			}
			logs, err := filepath.Glob(filepath.Join(s.logs, "default_[eo]*")) // they are removed last, and by their owner only
			if err == nil && len(logs) > 0 {
				err = fmt.Errorf("leftover %s", logs)
			}
			return errors.Join(err, state.where(func(pod string) bool { return !strings.HasPrefix(pod, "static-") }).empty())
		})
		_, _, err = s.container("static-1", "main")
		require.NoError(t, err)
		for _, o := range agents {
			o.stop()
		}
	})
}
