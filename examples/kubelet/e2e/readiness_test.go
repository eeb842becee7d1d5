package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A pod can serve while its readiness probe passes, also while its worker is busy:
// with an image that does not come, or a handler that does not end.
func TestReadinessGatesReady(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		a := newAnswers(t)
		folder := t.TempDir()
		ready := func(name string) v1.Container {
			c := shell("main", s.images.Busybox, untilTerm)
			c.ReadinessProbe = a.probe("/" + name)
			a.say("/"+name, 503)
			return c
		}
		s.place(t, "alone.yaml", newPod("alone", ready("alone")))
		hooked := shell("second", s.images.Busybox, untilTerm)
		hooked.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{
			Exec: &v1.ExecAction{Command: []string{"sh", "-c", "echo hook >> /steps/log; while [ -e /steps/wait ]; do sleep 0.1; done"}},
		}}
		s.place(t, "hooked.yaml", mount(newPod("hooked", ready("hooked"), hooked), folder))
		registry := newStallingRegistry(t, s.images.Registry)
		slow := shell("second", strings.Replace(s.images.Busybox, s.images.Registry, registry.addr, 1), untilTerm)
		slow.ImagePullPolicy = v1.PullAlways
		s.place(t, "pulling.yaml", newPod("pulling", ready("pulling"), slow))

		all := []string{"alone", "hooked", "pulling"}
		for _, name := range all {
			s.becomesUnready(t, name, "main")
			a.more(t, "/"+name, 1)
		}
		// Nothing comes of the second start of these containers: one has a handler that
		// does not end, the other an image that does not come.
		require.NoError(t, os.WriteFile(filepath.Join(folder, "wait"), nil, 0o644))
		registry.stall.Store(true)
		for _, name := range []string{"hooked", "pulling"} {
			// The command goes with its container, and may not live to tell.
			id := statusOf(s.running(t, name), "second").ContainerID
			_, _, _ = s.cri.ExecSync(t.Context(), bareID(id), []string{"kill", "-TERM", "1"}, 10*time.Second)
		}
		wait(t, soonEnough, "the handler runs again", func() error { return fileHas(filepath.Join(folder, "log"), "hook\nhook\n") })
		wait(t, soonEnough, "the image is asked for again", func() error {
			if registry.asked.Load() == 0 {
				return errors.New("it is not")
			}
			return nil
		})
		for range 2 {
			for _, name := range all {
				a.say("/"+name, 200)
			}
			for _, name := range all {
				s.becomes(t, name, "has a ready container", readyContainer("main", true))
			}
			s.becomesReady(t, "alone")
			s.checkBusy(t)
			for _, name := range all {
				a.say("/"+name, 503)
			}
			for _, name := range all {
				s.becomes(t, name, "has an unready container", readyContainer("main", false))
				s.becomesUnready(t, name, "main")
			}
		}
		s.checkBusy(t)

		for _, name := range all {
			a.say("/"+name, 200)
		}
		require.NoError(t, os.Remove(filepath.Join(folder, "wait")))
		for _, name := range []string{"alone", "hooked"} {
			require.NoError(t, restarted("main", 0)(s.becomesReady(t, name)), "readiness restarts nothing")
		}
	})
}

func readyContainer(name string, want bool) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if c := statusOf(p, name); c == nil || c.Ready != want {
			return fmt.Errorf("%s: %s", name, conditions(p))
		}
		return nil
	}
}

// checkBusy looks whether the workers are still busy.
func (s *scene) checkBusy(t *testing.T) {
	t.Helper()
	report, err := s.statusz()
	require.NoError(t, err)
	steps := map[string]string{}
	for _, p := range report.Pods {
		steps[strings.TrimSuffix(p.Name, "-"+s.node)] = p.Step
	}
	require.NotEmpty(t, steps["hooked"], "%+v", report.Pods)
	require.NotEmpty(t, steps["pulling"], "%+v", report.Pods)
}

// T20: the sandbox is ready long before the image has come.
func TestReadyToStartContainers(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		registry := newStallingRegistry(t, s.images.Registry)
		registry.stall.Store(true)
		image := strings.Replace(s.images.Busybox, s.images.Registry, registry.addr, 1)
		s.place(t, "pulling.yaml", networked("pulling", shell("main", image, untilTerm)))
		p := s.becomes(t, "pulling", "has a sandbox", func(p *v1.Pod) error {
			if c := condition(p, v1.PodReadyToStartContainers); c.Status != v1.ConditionTrue {
				return errors.New(conditions(p))
			}
			return nil
		})
		require.Equal(t, v1.PodPending, p.Status.Phase)
		waiting := statusOf(p, "main").State.Waiting
		require.NotNil(t, waiting)
		require.Equal(t, "ContainerCreating", waiting.Reason)
		require.NoError(t, isUnready(p, "main"))
		require.Empty(t, s.see(t).of("pulling").containers)
	})
}

// stallingRegistry is the testbed's registry, until it is told to be silent.
type stallingRegistry struct {
	addr  string
	stall atomic.Bool
	asked atomic.Int32 // how often nothing was answered
}

func newStallingRegistry(t *testing.T, registry string) *stallingRegistry {
	enough := make(chan struct{})
	r := &stallingRegistry{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.stall.Load() {
			proxy.ServeHTTP(w, req)
			return
		}
		r.asked.Add(1)
		select {
		case <-enough:
		case <-req.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(enough) })
	r.addr = server.Listener.Addr().String()
	return r
}

// T43: a pod that is being stopped is not restarted for its liveness probes, which ask
// no more, nor those of its sidecar; it may well turn unready.
func TestProbesOfStoppingPod(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		a := newAnswers(t)
		folder := t.TempDir()
		say := func(what string) string { return "echo " + what + " >> /steps/log\n" }
		end := func(name string) string {
			return "trap '" + say(name+" ends") + "exit 0' TERM; while true; do sleep 60 & wait $!; done"
		}
		main := shell("main", s.images.Busybox, end("main"))
		main.LivenessProbe, main.ReadinessProbe = a.probe("/main/liveness"), a.probe("/main/readiness")
		main.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
			Exec: &v1.ExecAction{Command: []string{"sh", "-c", "while ! [ -e /steps/go ]; do sleep 0.1; done\n" + say("preStop")}},
		}}
		side := shell("side", s.images.Busybox, end("side"))
		always := v1.ContainerRestartPolicyAlways
		side.RestartPolicy, side.LivenessProbe = &always, a.probe("/side/liveness")
		pod := newPod("draining", main)
		pod.Spec.InitContainers = []v1.Container{side}
		grace := int64(60)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		s.place(t, "draining.yaml", mount(pod, folder))
		before := s.becomesReady(t, "draining")
		a.more(t, "/main/liveness", 1)
		a.more(t, "/side/liveness", 1)

		s.unplace(t, "draining.yaml")
		wait(t, soonEnough, "it is being stopped", func() error {
			if len(s.events(t, "draining", "Killing")) == 0 {
				return fmt.Errorf("no event Killing")
			}
			return nil
		})
		for _, path := range []string{"/main/liveness", "/side/liveness", "/main/readiness"} {
			a.say(path, 503)
		}
		asked := a.count("/main/liveness") + a.count("/side/liveness")
		s.becomes(t, "draining", "is unready while it drains", func(p *v1.Pod) error { return isUnready(p, "main") })
		a.more(t, "/main/readiness", 3)
		require.Equal(t, asked, a.count("/main/liveness")+a.count("/side/liveness"), "liveness is not asked for any more")
		p, err := s.pod("draining")
		require.NoError(t, err)
		for _, name := range []string{"main", "side"} {
			require.Equal(t, statusOf(before, name).ContainerID, statusOf(p, name).ContainerID)
			require.NoError(t, restarted(name, 0)(p))
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, "go"), nil, 0o644))
		wait(t, soonEnough, "it goes", func() error { return s.gone("draining", string(p.UID)) })
		require.NoError(t, fileHas(filepath.Join(folder, "log"), "preStop\nmain ends\nside ends\n"))
		require.Empty(t, s.events(t, "draining", "Unhealthy", "Liveness"))
		require.Empty(t, s.events(t, "draining", "Killing", "liveness"))
	})
}
