package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// T38: a container that fails its liveness probe, whatever kind that is, is stopped
// and started again, once, and its pod's other container is not touched.
func TestLivenessRestarts(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		web := testprog(s.images.Testprog, "http")
		web.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		web.LivenessProbe = httpProbe("/healthz", intstr.FromString("web"))
		web.LivenessProbe.FailureThreshold = 2
		web.StartupProbe = startup(web.LivenessProbe)
		s.place(t, "web.yaml", networked("web", web, shell("calm", s.images.Busybox, untilTerm)))

		rpc := testprog(s.images.Testprog, "http")
		rpc.LivenessProbe = everySecond(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 8080}})
		rpc.StartupProbe = startup(rpc.LivenessProbe)
		s.place(t, "rpc.yaml", networked("rpc", rpc, shell("calm", s.images.Busybox, untilTerm)))

		cmd := shell("main", s.images.Busybox, "trap 'exit 7' TERM; while true; do sleep 60 & wait $!; done")
		cmd.LivenessProbe = execProbe("sh", "-c", "! [ -e /failing ]")
		s.place(t, "cmd.yaml", newPod("cmd", cmd, shell("calm", s.images.Busybox, untilTerm)))

		fail := map[string]func(*v1.Pod){
			"web": func(p *v1.Pod) { s.ask(t, p, "/fail") },
			"rpc": func(p *v1.Pod) { s.ask(t, p, "/fail") },
			"cmd": func(p *v1.Pod) { s.exec(t, statusOf(p, "main").ContainerID, "touch", "/failing") },
		}
		before := map[string]*v1.Pod{}
		for name := range fail {
			before[name] = s.becomesReady(t, name)
		}
		hold(t, 1500*time.Millisecond, "they pass", func() error { return s.unrestarted(fail) })
		for name, f := range fail {
			f(before[name])
		}
		for name := range fail {
			s.checkRestarted(t, name, before[name], map[string]int32{"cmd": 7}[name])
		}
		hold(t, 2500*time.Millisecond, "once is enough", func() error {
			for name := range fail {
				p, err := s.pod(name)
				if err == nil {
					err = restarted("main", 1)(p)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		// A body may hold secrets.
		require.Empty(t, s.events(t, "web", "Unhealthy", "failing"))
	})
}

// startup is a probe that lets the server of another one take its time to come up.
func startup(of *v1.Probe) *v1.Probe {
	p := of.DeepCopy()
	p.FailureThreshold = 120
	return p
}

func (s *scene) unrestarted(pods map[string]func(*v1.Pod)) error {
	for name := range pods {
		p, err := s.pod(name)
		if err == nil {
			err = restarted("main", 0)(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRestarted waits until the container main has been restarted because of its
// liveness probe, and compares everything else with how it was.
func (s *scene) checkRestarted(t *testing.T, name string, before *v1.Pod, exitCode int32) {
	t.Helper()
	p := s.becomes(t, name, "is restarted", restarted("main", 1))
	was, is := statusOf(before, "main"), statusOf(p, "main")
	require.NotEqual(t, was.ContainerID, is.ContainerID)
	ended := is.LastTerminationState.Terminated
	require.NotNil(t, ended, conditions(p))
	require.Equal(t, was.ContainerID, ended.ContainerID)
	require.Equal(t, exitCode, ended.ExitCode)
	require.Equal(t, statusOf(before, "calm").ContainerID, statusOf(p, "calm").ContainerID)
	require.NoError(t, restarted("calm", 0)(p))
	require.Equal(t, v1.PodRunning, p.Status.Phase)

	unhealthy := s.events(t, name, "Unhealthy", "Liveness", "containers{main}")
	killing := s.events(t, name, "Killing", "liveness", "containers{main}")
	require.NotEmpty(t, unhealthy)
	require.Len(t, killing, 1)
	log := s.log(t)
	require.Less(t, strings.Index(log, unhealthy[0]), strings.Index(log, killing[0]))
}

// A probe that goes on failing leads to a crash loop. What the container is given to
// end is the probe's own grace period, and not the pod's.
func TestLivenessCrashLoop(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		folder := t.TempDir()
		main := shell("main", s.images.Busybox, "trap '! [ -e /steps/obey ] || exit 0' TERM; while true; do sleep 60 & wait $!; done")
		main.LivenessProbe = everySecond(v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{
			Host: "127.0.0.1", Port: intstr.FromInt(l.Addr().(*net.TCPAddr).Port),
		}})
		grace, probeGrace := int64(300), int64(1)
		main.LivenessProbe.TerminationGracePeriodSeconds = &probeGrace
		pod := mount(newPod("stubborn", main), folder)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		defer func() { require.NoError(t, os.WriteFile(filepath.Join(folder, "obey"), nil, 0o644)) }()
		s.place(t, "stubborn.yaml", pod)
		s.running(t, "stubborn")
		hold(t, 1500*time.Millisecond, "it passes", func() error { return s.isRunning("stubborn") })

		require.NoError(t, l.Close())
		p := s.becomes(t, "stubborn", "is restarted", func(p *v1.Pod) error {
			if c := statusOf(p, "main"); c == nil || c.RestartCount == 0 {
				return fmt.Errorf("%s", conditions(p))
			}
			return nil
		})
		require.EqualValues(t, 137, statusOf(p, "main").LastTerminationState.Terminated.ExitCode)
		s.becomes(t, "stubborn", "is in a crash loop", func(p *v1.Pod) error {
			// What a sync ends and starts again itself is, for back-off, as if it had not
			// ended: the second restart need not wait, the third does.
			c := statusOf(p, "main")
			if c.RestartCount > 2 || c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" ||
				c.LastTerminationState.Terminated.ExitCode != 137 {
				return fmt.Errorf("%s", conditions(p))
			}
			return nil
		})
		require.NotEmpty(t, s.events(t, "stubborn", "Unhealthy", "Liveness"))
		require.NotEmpty(t, s.events(t, "stubborn", "BackOff"))
	})
}

// T18, T37 and T41 without a restart of the kubelet: nothing else is asked before the
// startup probe has passed, it is asked no more afterwards, and what follows a sidecar
// waits for it. A sidecar counts for its pod, and is restarted alone.
func TestStartupGates(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		a := newAnswers(t)
		s.place(t, "gated.yaml", newPod("gated", allProbes(a, testprog(s.images.Testprog, "run"), "/main")))

		side := allProbes(a, shell("side", s.images.Busybox, untilTerm), "/side")
		always := v1.ContainerRestartPolicyAlways
		side.RestartPolicy = &always
		sidecar := newPod("sidecar", shell("main", s.images.Busybox, untilTerm))
		sidecar.Spec.InitContainers = []v1.Container{side, shell("second", s.images.Busybox, "true")}
		s.place(t, "sidecar.yaml", sidecar)

		late := allProbes(a, shell("main", s.images.Busybox, untilTerm), "/late")
		late.StartupProbe.FailureThreshold = 2
		s.place(t, "late.yaml", newPod("late", late))

		a.more(t, "/main/startup", 2)
		a.more(t, "/side/startup", 2)
		for _, path := range []string{"/main", "/side"} {
			require.Zero(t, a.count(path+"/liveness"), path)
			require.Zero(t, a.count(path+"/readiness"), path)
		}
		p, err := s.pod("gated")
		require.NoError(t, err)
		require.NoError(t, isUnready(p, "main"))
		require.False(t, *statusOf(p, "main").Started)
		p, err = s.pod("sidecar")
		require.NoError(t, err)
		require.Equal(t, v1.PodPending, p.Status.Phase)
		require.NotNil(t, statusOf(p, "second").State.Waiting, "%s", conditions(p))
		require.Len(t, s.see(t).of("sidecar").containers, 1)

		a.say("/main/startup", 200)
		a.say("/side/startup", 200)
		s.becomesReady(t, "gated")
		s.becomesReady(t, "sidecar")
		asked := a.count("/main/startup")
		a.more(t, "/main/liveness", 3)
		require.Equal(t, asked, a.count("/main/startup"))
		s.checkSidecar(t, a)

		s.becomes(t, "late", "is restarted", func(p *v1.Pod) error {
			if c := statusOf(p, "main"); c == nil || c.RestartCount == 0 {
				return fmt.Errorf("%s", conditions(p))
			}
			return nil
		})
		require.Zero(t, a.count("/late/liveness"))
		require.NotEmpty(t, s.events(t, "late", "Unhealthy", "Startup"))
		require.NotEmpty(t, s.events(t, "late", "Killing", "startup"))
	})
}

// allProbes gives a container the three probes, of which startup fails.
func allProbes(a *answers, c v1.Container, path string) v1.Container {
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = a.probe(path+"/liveness"), a.probe(path+"/readiness"), a.probe(path+"/startup")
	c.StartupProbe.FailureThreshold = 120
	a.say(path+"/startup", 503)
	return c
}

// checkSidecar lets the sidecar be unready, and then fail.
func (s *scene) checkSidecar(t *testing.T, a *answers) {
	before := s.becomesReady(t, "sidecar")
	a.say("/side/readiness", 503)
	s.becomesUnready(t, "sidecar", "side")
	a.say("/side/readiness", 200)
	s.becomesReady(t, "sidecar")

	asked := a.count("/side/startup")
	a.say("/side/liveness", 500)
	s.tells(t, "sidecar", "Killing", "liveness", "initContainers{side}")
	a.say("/side/liveness", 200)
	s.becomes(t, "sidecar", "has its sidecar restarted", restarted("side", 1))
	after := s.becomesReady(t, "sidecar")
	require.Equal(t, statusOf(before, "main").ContainerID, statusOf(after, "main").ContainerID)
	require.Equal(t, statusOf(before, "second").ContainerID, statusOf(after, "second").ContainerID)
	require.Equal(t, asked+1, a.count("/side/startup"), "its second start is asked for, once")
}

// kubeadm writes static pods with probes like these.
func TestKubeadmManifest(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		port := freePort(t)
		probe := func(path string, more string) string {
			return fmt.Sprintf(`
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: %s
        port: probe-port
        scheme: HTTPS
      periodSeconds: 10
      timeoutSeconds: 15
`, path) + more
		}
		manifest := `apiVersion: v1
kind: Pod
metadata:
  name: apiserver
  namespace: default
  labels: {component: apiserver, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: ` + s.images.Testprog + `
    imagePullPolicy: IfNotPresent
    command: [/testprog, https, "127.0.0.1:` + fmt.Sprint(port) + `"]
    ports:
    - {containerPort: ` + fmt.Sprint(port) + `, name: probe-port, protocol: TCP}
    livenessProbe:` + probe("/healthz", "      initialDelaySeconds: 10\n") + `
    readinessProbe:` + strings.Replace(probe("/healthz", ""), "periodSeconds: 10", "periodSeconds: 1", 1) + `
    startupProbe:` + strings.NewReplacer("failureThreshold: 8", "failureThreshold: 24", "periodSeconds: 10", "periodSeconds: 1").Replace(probe("/healthz", "")) + `
    resources:
      requests: {cpu: 25m}
`
		s.placeText(t, "apiserver.yaml", manifest)
		p := s.becomesReady(t, "apiserver")
		require.NoError(t, restarted("main", 0)(p))
		require.Empty(t, s.events(t, "apiserver", "Killing"))
	})
}
