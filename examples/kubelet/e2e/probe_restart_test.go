package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// T9, T10, T40 and T41: what was known of pods outlives the kubelet, however it ends.
// A ready pod is never said to be unready, an unready one never ready, what has
// started is not asked again whether it has, and the ends of containers that the
// runtime does not have any more are still known. A memory that cannot be read harms
// its own pod only, and is named.
func TestProbesOverRestart(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		a := newAnswers(t)
		for _, name := range []string{"ready", "unready", "corrupt"} {
			c := shell("main", s.images.Busybox, untilTerm)
			c.ReadinessProbe, c.StartupProbe = a.probe("/"+name+"/readiness"), a.probe("/"+name+"/startup")
			pod := newPod(name, c)
			if name == "ready" {
				pod.Spec.InitContainers = []v1.Container{shell("first", s.images.Busybox, "true")}
			}
			s.place(t, name+".yaml", pod)
		}
		a.say("/unready/readiness", 503)
		crash := newPod("crash", testprog(s.images.Testprog, "exit", "3"))
		s.place(t, "crash.yaml", crash)
		ended := newPod("ended", testprog(s.images.Testprog, "exit", "3"))
		ended.Spec.RestartPolicy = v1.RestartPolicyNever
		s.place(t, "ended.yaml", ended)
		s.becomesReady(t, "ready")
		corrupt := s.becomesReady(t, "corrupt")
		s.becomesUnready(t, "unready", "main")
		a.more(t, "/unready/readiness", 2)
		s.crashLooping(t, "crash", 1)
		wait(t, soonEnough, "ended ends", func() error { return s.hasEnded("ended", v1.PodFailed) })
		ids := s.see(t).ids()

		for _, end := range []struct {
			name string
			end  func()
		}{
			{"SIGTERM", func() { require.Zero(t, s.terminate(t, 20*time.Second)) }},
			{"kill -9", func() { s.kill(t) }},
		} {
			started := a.count("/ready/startup") + a.count("/unready/startup")
			end.end()
			s.removeExited(t)
			s.start(t)
			s.remembers(t, a, end.name)
			require.Equal(t, started, a.count("/ready/startup")+a.count("/unready/startup"), end.name)
		}
		s.kill(t)
		file := filepath.Join(s.root, "pods", string(corrupt.UID), "podwright-status.json")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, data[:len(data)/2], 0o600))
		s.start(t)
		s.remembers(t, a, "half of a file")
		require.NotEmpty(t, s.logLines(t, "level=ERROR", string(corrupt.UID), "podwright-status.json"))
		s.becomesReady(t, "corrupt")
		now := s.see(t).ids()
		for _, name := range []string{"ready/main", "unready/main", "corrupt/main"} {
			require.Equal(t, ids[name], now[name], name)
		}
	})
}

// removeExited takes from the runtime what has ended: another kubelet, a person, or
// lack of space may have removed it.
func (s *scene) removeExited(t *testing.T) {
	w := s.see(t)
	running := map[string]bool{}
	for _, c := range w.running() {
		running[c.Id] = true
	}
	for _, c := range w.containers {
		if !running[c.Id] {
			// The runtime may be starting it still, for the kubelet that was killed.
			wait(t, soonEnough, "removal of "+c.Metadata.Name, func() error {
				return s.cri.RemoveContainer(context.Background(), c.Id)
			})
		}
	}
}

// remembers looks at a kubelet that has just been started until it has asked again.
func (s *scene) remembers(t *testing.T, a *answers, after string) {
	t.Helper()
	want := map[string]int{"/ready/readiness": 0, "/unready/readiness": 0}
	for path := range want {
		want[path] = a.count(path) + 3
	}
	seen := 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soonEnough); ; <-tick.C {
		require.True(t, time.Now().Before(deadline), "%s: the probes do not go on", after)
		if all, err := s.pods(); err == nil { // else it is not up yet
			seen++
			for i := range all {
				require.NoError(t, s.asBefore(&all[i]), "%s, look %d", after, seen)
			}
		}
		// A busy machine may take a second for each look.
		if seen > 20 && a.count("/ready/readiness") >= want["/ready/readiness"] && a.count("/unready/readiness") >= want["/unready/readiness"] {
			break
		}
	}
	wait(t, soonEnough, after+": all is as it was", func() error {
		for name, count := range map[string]int{"ready": 0, "unready": 0, "crash": 1, "ended": 0} {
			p, err := s.pod(name)
			if err != nil {
				return err
			}
			if c := statusOf(p, "main"); c == nil || int(c.RestartCount) < count {
				return fmt.Errorf("%s", conditions(p))
			}
		}
		return s.hasEnded("ended", v1.PodFailed)
	})
}

// asBefore compares a pod with what was known of it before. Of a pod that was only
// just read from its manifest nothing is said yet.
func (s *scene) asBefore(p *v1.Pod) error {
	if len(p.Status.Conditions) == 0 {
		return nil
	}
	c := statusOf(p, "main")
	if c == nil {
		return fmt.Errorf("no container: %s", conditions(p))
	}
	var ok bool
	switch strings.TrimSuffix(p.Name, "-"+s.node) {
	case "ready":
		first := statusOf(p, "first")
		ok = isReady(p) == nil && c.Ready && *c.Started && first != nil && first.Ready &&
			first.State.Terminated != nil && first.State.Terminated.ExitCode == 0 && first.RestartCount == 0
	case "unready":
		ok = isUnready(p, "main") == nil && !c.Ready && *c.Started
	case "crash":
		last := c.State.Terminated
		if last == nil {
			last = c.LastTerminationState.Terminated
		}
		// A kubelet that was killed in the middle of a start leaves one that was cut off.
		ok = c.RestartCount >= 1 && last != nil && (last.ExitCode == 3 || last.Reason == "StartError")
	case "ended":
		ok = s.hasEndedAs(p)
	default:
		ok = true
	}
	if !ok {
		return fmt.Errorf("not as before: %s; before: %+v", conditions(p), c.LastTerminationState.Terminated)
	}
	return nil
}

func (s *scene) hasEndedAs(p *v1.Pod) bool {
	c := statusOf(p, "main")
	return p.Status.Phase == v1.PodFailed && c.State.Terminated != nil && c.State.Terminated.ExitCode == 3 && c.RestartCount == 0
}
