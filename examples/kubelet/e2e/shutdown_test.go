package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/shutdown/logindtest"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// onRuntimesWithLogind is onRuntimes; each kubelet is connected to a separate fake
// logind.
func onRuntimesWithLogind(t *testing.T, test func(t *testing.T, s *scene, l *logindtest.Logind)) {
	t.Helper()
	onEach(t, tb.Turns, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		address, _ := logindtest.StartBus(t)
		l := logindtest.Start(t, address, time.Hour)
		s := newScene(t, rt, images, options{
			config:   "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 30}, {priority: 1000, shutdownGracePeriodSeconds: 30}, {priority: 2000000, shutdownGracePeriodSeconds: 30}]",
			endpoint: rt.Endpoint, env: []string{"DBUS_SYSTEM_BUS_ADDRESS=" + address},
		})
		s.start(t)
		test(t, s, l)
	})
}

// placePriorityGroups places a pod in each of three priority groups. The pods take 3 s to end.
func placePriorityGroups(t *testing.T, s *scene) (names []string) {
	names = []string{"low", "middle", "high"}
	for i, name := range names {
		pod := newPod(name, shell("main", s.images.Busybox, "\ntrap 'sleep 3; exit 0' TERM; while true; do sleep 60 & wait $!; done"))
		priority := []int32{-5, 1500, 2_000_000}[i]
		pod.Spec.Priority, pod.Spec.TerminationGracePeriodSeconds = &priority, new(int64(20))
		s.writeManifest(t, name+".yaml", pod)
	}
	for _, name := range names {
		s.running(t, name)
	}
	return names
}

// waitLock waits for the kubelet's next lock and returns a channel that is closed at its release.
func waitLock(t *testing.T, s *scene, l *logindtest.Logind) (released <-chan struct{}) {
	t.Helper()
	var lock logindtest.Lock
	select {
	case lock = <-l.Locks:
	case <-time.After(time.Minute):
		t.Fatal("the kubelet took no lock")
	}
	wait(t, time.Minute, "the kubelet has the lock", func() error { return s.hasOpen(lock.W) })
	require.NoError(t, lock.W.Close())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.ReadAll(lock.R)
		_ = lock.R.Close()
	}()
	t.Cleanup(func() { _ = lock.R.Close(); <-done })
	return done
}

// hasOpen returns an error if the kubelet does not have the pipe open.
func (s *scene) hasOpen(pipe *os.File) error {
	want, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pipe.Fd()))
	if err != nil {
		return err
	}
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.proc.cmd.Process.Pid))
	for _, fd := range all {
		if is, _ := os.Readlink(fd); is == want {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("%s is not among the kubelet's %d open files", want, len(all)))
}

func waitClosed(t *testing.T, message string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal(message)
	}
}

// terminated returns an error unless a pod ended because of the node's shutdown.
func (s *scene) terminated(name string) error {
	p, err := s.pod(name)
	if err != nil {
		return err
	}
	c := condition(p, v1.DisruptionTarget)
	if c.Status != v1.ConditionTrue || c.Reason != "TerminationByKubelet" || p.Status.Phase != v1.PodFailed || p.Status.Reason != "Terminated" || p.Status.Message != "Pod was terminated in response to imminent node shutdown." {
		return errors.New(brief(p))
	}
	return nil
}

// N35: at a shutdown pods end by priority, and the kubelet releases its lock when their statuses
// are terminal. New pods are rejected. If the shutdown is cancelled, the kubelet takes the next
// lock, and new pods run.
func TestShutdownEndsPodsByPriority(t *testing.T) {
	onRuntimesWithLogind(t, func(t *testing.T, s *scene, l *logindtest.Logind) {
		names := placePriorityGroups(t, s)
		released := waitLock(t, s, l)
		l.Say(t, true)
		wait(t, time.Minute, "the shutdown has begun", func() error { return fileHas(s.output, "the node is shutting down") })
		s.writeManifest(t, "late.yaml", newPod("late", shell("main", s.images.Busybox, untilTerm)))
		waitClosed(t, "the lock was not released", released)
		var before time.Time
		for _, name := range names {
			require.NoError(t, s.terminated(name))
			_, c, err := s.container(name, "main")
			require.NoError(t, err)
			ended := c.State.Terminated.FinishedAt.Time
			require.True(t, ended.After(before), "%s ended at %s, the previous pod at %s", name, ended, before)
			before = ended
		}
		wait(t, time.Minute, "a new pod is rejected", func() error {
			p, err := s.pod("late")
			if err == nil && (p.Status.Phase != v1.PodFailed || p.Status.Reason != "NodeShutdown") {
				err = errors.New(brief(p))
			}
			return err
		})
		l.Say(t, false)
		waitLock(t, s, l)
		s.writeManifest(t, "after.yaml", newPod("after", shell("main", s.images.Busybox, untilTerm)))
		s.running(t, "after")
	})
}
