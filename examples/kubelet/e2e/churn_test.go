package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods"
)

const (
	churnPods  = 8
	churnKills = 12
	// churnSeed is the variable that repeats a run.
	churnSeed = "PODWRIGHT_CHURN_SEED"
)

// kill -9 at random moments, while manifests come, go and change, harms nobody:
// afterwards exactly what the manifests say runs, each container once, and pods
// that were left alone were never touched. Manifests also change while no agent
// runs: the next one stops the orphans.
func TestKilledDuringChurn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(churnSeed); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		t.Logf("%s=%d", churnSeed, seed)
		c := &churn{scene: s, rand: rand.New(rand.NewPCG(seed, 0)), desired: map[string]*v1.Pod{}}
		for i := range 3 {
			name := fmt.Sprintf("steady-%d", i)
			s.place(t, name+".yaml", newPod(name, testprog(s.images.Testprog, "run"), shell("second", s.images.Busybox, untilTerm)))
		}
		for i := range churnPods / 2 {
			c.put(t, fmt.Sprintf("churn-%d", i))
		}
		var steady []*v1.Pod
		for i := range 3 {
			steady = append(steady, s.running(t, fmt.Sprintf("steady-%d", i)))
		}
		before := s.see(t).ids()

		for range churnKills {
			c.until(t, time.Duration(c.rand.IntN(1200))*time.Millisecond)
			s.kill(t)
			if c.rand.IntN(3) == 0 {
				c.step(t)
				c.step(t)
			}
			s.start(t)
		}

		begin := time.Now()
		hold(t, time.Second, "calls that were cut off come to their end", func() error { return nil })
		s.unstick(t)
		wait(t, time.Minute, "what the manifests say runs", c.converged)
		t.Logf("converged after %s", time.Since(begin))
		hold(t, 3*time.Second, "and nothing else happens", c.converged)
		after := s.see(t).ids()
		for i, was := range steady {
			name := fmt.Sprintf("steady-%d", i)
			require.NoError(t, s.untouched(was, name))
			for _, container := range []string{"/main", "/second"} {
				require.Equal(t, before[name+container], after[name+container])
			}
		}
	})
}

// unstick restarts a runtime that cannot remove one of its own containers any more.
// containerd 2.2.1 keeps a task that nobody knows when its client dies in the middle
// of StartContainer, and refuses to remove the container ("cannot delete running
// task") until it is started again. No call of the CRI helps; the kubelet says so
// in its log and goes on trying, which then succeeds.
func (s *scene) unstick(t *testing.T) {
	t.Helper()
	for _, c := range s.see(t).containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			continue
		}
		status, err := s.cri.ContainerStatus(t.Context(), c.Id, false)
		if err != nil || status.Status.Reason != "StartError" {
			continue
		}
		err = s.cri.RemoveContainer(t.Context(), c.Id)
		if err == nil || !strings.Contains(err.Error(), "cannot delete running task") {
			continue
		}
		t.Logf("the runtime is restarted: it cannot remove a container whose start was cut off: %v", err)
		s.runtime.Stop(t)
		s.runtime.Start(t)
		return
	}
}

// churn is a script of random changes, and what should run after them.
type churn struct {
	*scene
	rand    *rand.Rand
	desired map[string]*v1.Pod
	version int
}

// until changes something now and then for a duration.
func (c *churn) until(t *testing.T, d time.Duration) {
	next := time.Now()
	hold(t, d, "churn", func() error {
		if time.Now().After(next) {
			c.step(t)
			next = time.Now().Add(time.Duration(c.rand.IntN(300)) * time.Millisecond)
		}
		return nil
	})
}

// step adds, edits or removes one pod.
func (c *churn) step(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("churn-%d", c.rand.IntN(churnPods))
	if c.desired[name] != nil && c.rand.IntN(3) == 0 {
		c.unplace(t, name+".yaml")
		delete(c.desired, name)
		return
	}
	c.put(t, name)
}

// put writes another version of a pod. Some have a fixed UID, and change their
// image.
func (c *churn) put(t *testing.T, name string) {
	t.Helper()
	c.version++
	images := []string{c.images.Testprog, c.images.Testprog2}
	verbs := [][]string{{"run"}, {"ignore"}, {"delay", "200ms"}}
	pod := newPod(name, testprog(images[c.rand.IntN(2)], verbs[c.rand.IntN(3)]...))
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "VERSION", Value: strconv.Itoa(c.version)}}
	if name == "churn-0" || name == "churn-1" {
		pod.UID = types.UID(name + c.node)
	}
	c.place(t, name+".yaml", pod)
	c.desired[name] = pod
}

// converged returns nil when exactly the desired pods are there, with the desired
// content and one instance each.
func (c *churn) converged() error {
	w, err := c.look()
	if err != nil {
		return err
	}
	if have, want := len(w.running()), len(c.desired)+6; have != want {
		return fmt.Errorf("%d containers run, want %d: %s", have, want, w)
	}
	if have, want := len(w.ready()), len(c.desired)+3; have != want {
		return fmt.Errorf("%d sandboxes are ready, want %d: %s", have, want, w)
	}
	var errs []error
	for _, b := range w.sandboxes {
		// A dead one stays as long as it holds the last dead container of a pod that
		// is there.
		name := strings.TrimSuffix(b.Metadata.Name, "-"+c.node)
		if b.State != runtimeapi.PodSandboxState_SANDBOX_READY && (c.desired[name] == nil || c.desired[name].UID == "") {
			errs = append(errs, fmt.Errorf("%s is left: %s", b.Id, w))
		}
	}
	for name, want := range c.desired {
		errs = append(errs, c.isOnce(w.of(name), name, want))
	}
	return errors.Join(errs...)
}

func (c *churn) isOnce(w world, name string, want *v1.Pod) error {
	have, status, err := c.container(name, "main")
	if err != nil {
		return err
	}
	running := w.running()
	switch {
	case have.Spec.Containers[0].Env[0] != want.Spec.Containers[0].Env[0]:
		return fmt.Errorf("%s has another version: %v", name, have.Spec.Containers[0].Env)
	case status.State.Running == nil:
		return errors.New(brief(have))
	case len(running) != 1 || len(w.ready()) != 1:
		return fmt.Errorf("%s is not there once: %s", name, w)
	case running[0].Id != bareID(status.ContainerID) || running[0].Labels[pods.LabelPodUID] != string(have.UID):
		return fmt.Errorf("%s: %s runs: %s", name, running[0].Id, brief(have))
	case running[0].Image.GetImage() == "" || status.Image != want.Spec.Containers[0].Image:
		return fmt.Errorf("%s: image %s", name, status.Image)
	}
	return nil
}
