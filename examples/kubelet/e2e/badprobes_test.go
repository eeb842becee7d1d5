package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// badProbes are manifests that nobody could do what they ask for, each with what the
// problem has to say.
func (s *scene) badProbes(t *testing.T) map[string]struct{ manifest, want string } {
	edited := func(edit func(*v1.Container)) string {
		c := testprog(s.images.Testprog, "run")
		c.LivenessProbe = execProbe("true")
		edit(&c)
		return text(t, newPod("bad", c))
	}
	good := edited(func(*v1.Container) {})
	const probe = "spec.containers[0].livenessProbe"
	return map[string]struct{ manifest, want string }{
		"negative-delay":  {edited(func(c *v1.Container) { c.LivenessProbe.InitialDelaySeconds = -1 }), probe + ".initialDelaySeconds: "},
		"patient":         {edited(func(c *v1.Container) { c.LivenessProbe.SuccessThreshold = 2 }), probe + ".successThreshold: "},
		"two-handlers":    {edited(func(c *v1.Container) { c.LivenessProbe.GRPC = &v1.GRPCAction{Port: 1} }), probe},
		"no-handler":      {edited(func(c *v1.Container) { c.LivenessProbe.Exec = nil }), probe + ": "},
		"port-too-high":   {edited(func(c *v1.Container) { c.LivenessProbe = httpProbe("/", intstr.FromInt(70000)) }), probe + ".httpGet.port: "},
		"unknown-handler": {strings.Replace(good, "      exec:\n", "      httpPost: {port: 1}\n      exec:\n", 1), probe + ".httpPost"},
		"unknown-field":   {strings.Replace(good, "      exec:\n", "      exec:\n        shell: sh\n", 1), probe + ".exec.shell"},
	}
}

// A probe that cannot be is a problem of its manifest, and one that nobody answers as
// it should is an event of its pod. Neither is noticed by the pod beside it.
func TestBadProbes(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		a := newAnswers(t)
		calm := shell("main", s.images.Busybox, untilTerm)
		calm.LivenessProbe, calm.ReadinessProbe = a.probe("/calm/liveness"), a.probe("/calm/readiness")
		s.place(t, "calm.yaml", newPod("calm", calm))
		before := s.becomesReady(t, "calm")
		a.more(t, "/calm/liveness", 1)
		from := time.Now()

		bad := s.badProbes(t)
		for name, c := range bad {
			s.placeText(t, name+".yaml", c.manifest)
		}
		folder := t.TempDir()
		for name, pod := range s.oddPods(folder) {
			s.place(t, name+".yaml", pod)
		}
		for name, c := range bad {
			s.hasProblem(t, name+".yaml", c.want, false)
		}
		s.checkOdd(t)
		s.checkFlood(t, folder)
		a.more(t, "/calm/liveness", 2)
		for _, path := range []string{"/calm/liveness", "/calm/readiness"} {
			require.NoError(t, steady(a.times(path), from), path)
		}
		require.NoError(t, s.untouched(before, "calm"))
		require.NoError(t, isReady(s.becomesReady(t, "calm")))
		require.Empty(t, s.events(t, "calm", "Unhealthy"))
	})
}

// steady returns nil when what is due each second never waited for what others take
// to answer, or not to; a busy machine takes a second or two by itself.
func steady(times []time.Time, from time.Time) error {
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); times[i].After(from) && gap > 5*time.Second {
			return fmt.Errorf("nothing for %s at %s", gap, times[i-1])
		}
	}
	return nil
}

// oddPods are pods whose probes meet what a server should not do. Each has a readiness
// probe, so that nothing is restarted.
func (s *scene) oddPods(folder string) map[string]*v1.Pod {
	server := func(name string, probe *v1.Probe, verb ...string) *v1.Pod {
		c := testprog(s.images.Testprog, verb...)
		c.ReadinessProbe = probe
		return networked(name, c)
	}
	http := func(name, path string) *v1.Pod { return server(name, httpProbe(path, intstr.FromInt(8080)), "http") }
	rpc := func(service string) *v1.Probe {
		return everySecond(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 8080, Service: &service}})
	}
	out := map[string]*v1.Pod{
		"endless":   http("endless", "/endless"),
		"silent":    http("silent", "/silent"),
		"elsewhere": http("elsewhere", "/redirect?to=http://elsewhere.invalid/"),
		"chain":     http("chain", "/chain?n=11"),
		"secret":    http("secret", "/status?code=500"),
		"no-port":   server("no-port", httpProbe("/", intstr.FromString("nobody")), "http"),
		"hangs":     server("hangs", rpc("hang"), "http"),
		"mute":      server("mute", rpc(""), "silent"),
		"down":      server("down", rpc("down"), "http"),
	}
	for _, name := range []string{"silent", "hangs", "mute"} {
		out[name].Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 1
	}
	flood := shell("main", s.images.Busybox, untilTerm)
	flood.ReadinessProbe = execProbe("sh", "-c", "[ -e /steps/enough ] && exit 0; echo x >> /steps/floods; trap '' TERM INT HUP; exec yes flood-"+s.node)
	flood.ReadinessProbe.TimeoutSeconds = 1
	out["flood"] = mount(newPod("flood", flood), folder)
	return out
}

// checkOdd waits for what people are told of each of the pods.
func (s *scene) checkOdd(t *testing.T) {
	t.Helper()
	for name, want := range map[string][]string{
		"silent":  {"Readiness probe failed"},
		"chain":   {"Readiness probe failed"},
		"secret":  {"Readiness probe failed", "500"},
		"no-port": {"could not be carried out", "nobody"},
		"hangs":   {"Readiness probe failed"},
		"mute":    {"Readiness probe failed"},
		"down":    {"Readiness probe failed"},
		"flood":   {"Readiness probe failed"},
	} {
		s.tells(t, name, "Unhealthy", append(want, "containers{main}")...)
		s.becomesUnready(t, name, "main")
	}
	s.tells(t, "elsewhere", "ProbeWarning", "Readiness probe warning", "elsewhere.invalid")
	for _, name := range []string{"elsewhere", "endless"} {
		s.becomesReady(t, name)
		require.Empty(t, s.unhealthySinceItServes(t, name), name)
	}
	require.Empty(t, s.logLines(t, "s3cret"))
	hold(t, 2*time.Second, "it stays so", func() error {
		for name := range s.oddPods("") {
			p, err := s.pod(name)
			if err == nil {
				err = restarted("main", 0)(p)
			}
			if ready := err == nil && isReady(p) == nil; ready != (name == "elsewhere" || name == "endless") {
				err = errors.New(conditions(p))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// unhealthySinceItServes are the events of failures, without those from before there
// was a server.
func (s *scene) unhealthySinceItServes(t *testing.T, name string) []string {
	return slices.DeleteFunc(s.events(t, name, "Unhealthy"), func(line string) bool {
		return strings.Contains(line, "connection refused")
	})
}

// checkFlood looks for what is left of a command that does not end by itself: while
// its container goes on, nothing.
func (s *scene) checkFlood(t *testing.T, folder string) {
	t.Helper()
	flood := "flood-" + s.node
	wait(t, soonEnough, "it was tried again", func() error {
		data, err := os.ReadFile(filepath.Join(folder, "floods"))
		if n := strings.Count(string(data), "x\n"); err == nil && n < 3 {
			err = fmt.Errorf("%d times", n)
		}
		return err
	})
	hold(t, 2*time.Second, "they do not pile up", func() error {
		// One, and the one before that is just being killed.
		if found := processes(flood); len(found) > 2 {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	require.NoError(t, os.WriteFile(filepath.Join(folder, "enough"), nil, 0o644))
	s.becomesReady(t, "flood")
	wait(t, soonEnough, "its commands are gone", func() error {
		if left := processes(flood); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	require.NoError(t, s.isRunning("flood"))
}

// processes are those with the text in their command, by their IDs.
func processes(text string) map[string]string {
	out := map[string]string{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return out
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), text) {
			out[filepath.Base(filepath.Dir(file))] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return out
}
