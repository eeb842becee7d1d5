package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/volumetest"
)

// The back-off of NotReadyError controls the retries of workers.
var _ podworkers.Backoff = (*manager.NotReadyError)(nil)

// withVolumes adds volumes to the pods of the suite. Its Release also removes the pods'
// folders.
type withVolumes struct {
	stages.Stage
	a *agent
}

func (s withVolumes) Release(ctx context.Context, uid types.UID) error {
	err := s.Stage.Release(ctx, uid)
	_ = os.Remove(s.a.cfg.Layout.Pod(uid))
	return err
}

func (s withVolumes) Prepare(ctx context.Context, pod *v1.Pod) error {
	with := newPod(string(pod.UID), "data", "disk=x")
	with.Namespace, with.Name = pod.Namespace, pod.Name
	return s.Stage.Prepare(ctx, with)
}

// The manager passes the suite of stages, including kills of the agent.
func TestStageContract(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		var mu sync.Mutex
		blocked := map[types.UID]chan struct{}{}
		a := newAgent(t, func(a *agent) {
			a.plugin.Fault = func(ctx context.Context, c volumetest.Call) error {
				mu.Lock()
				wait := blocked[c.Pod]
				mu.Unlock()
				if c.Method == "Unmount" && wait != nil {
					select {
					case <-wait:
					case <-ctx.Done():
					}
				}
				return ctx.Err()
			}
		})
		opened := false
		return stagestest.Subject{
			Open: func() (stages.Stage, error) {
				if opened {
					a.restart()
				}
				opened = true
				return withVolumes{a.Manager, a}, nil
			},
			Holds: func(uid types.UID) bool {
				for _, pattern := range []string{"volumes/*", "volumeDevices/*", "volume-subpaths/*"} {
					if found, _ := filepath.Glob(filepath.Join(a.cfg.Layout.Pod(uid), pattern)); len(found) > 0 {
						return true
					}
				}
				return false
			},
			Halfway: map[string]func(*v1.Pod) error{
				"the folder of the plugin": func(pod *v1.Pod) error {
					return os.MkdirAll(filepath.Dir(a.dir(pod, a.plugin, "data")), 0o750)
				},
				"the folder of the volume": func(pod *v1.Pod) error { return os.MkdirAll(a.dir(pod, a.shared, "pv-x"), 0o750) },
				"the folder of a sub path": func(pod *v1.Pod) error { return os.MkdirAll(a.cfg.Layout.SubPath(pod.UID, "data", "c", 0), 0o750) },
				"a folder of another agent": func(pod *v1.Pod) error {
					return os.MkdirAll(a.cfg.Layout.Volume(pod.UID, "example.com/other", "v"), 0o750)
				},
			},
			Block: func(uid types.UID) (unblock func()) {
				wait := make(chan struct{})
				mu.Lock()
				defer mu.Unlock()
				blocked[uid] = wait
				return func() {
					mu.Lock()
					defer mu.Unlock()
					delete(blocked, uid)
					close(wait)
				}
			},
		}
	})
}
