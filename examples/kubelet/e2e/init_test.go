package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/server"
)

// chainPod has what comes before and after its main container: each step adds a
// line to a file on the host. The second init container waits until it is let go.
func chainPod(image, folder string) *v1.Pod {
	say := func(what string) string { return "echo " + what + " >> /steps/log\n" }
	always := v1.ContainerRestartPolicyAlways
	sidecar := shell("sidecar", image, say("sidecar")+"trap '"+say("sidecar ends")+"exit 0' TERM; while true; do sleep 60 & wait $!; done")
	sidecar.RestartPolicy = &always
	main := shell("main", image, say("main")+"trap '"+say("main ends")+"exit 0' TERM; while true; do sleep 60 & wait $!; done")
	main.Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", say("postStart")}}},
		PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "sleep 1\n" + say("preStop")}}},
	}
	pod := newPod("chain", main)
	pod.Spec.InitContainers = []v1.Container{
		shell("first", image, "if ! [ -e /steps/failed ]; then touch /steps/failed; "+say("first fails")+"exit 3; fi\n"+say("first")),
		sidecar,
		shell("second", image, "while ! [ -e /steps/go ]; do sleep 0.1; done\n"+say("second")),
	}
	grace := int64(60)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Volumes = []v1.Volume{{Name: "steps", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder}}}}
	mount := []v1.VolumeMount{{Name: "steps", MountPath: "/steps"}}
	pod.Spec.Containers[0].VolumeMounts = mount
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].VolumeMounts = mount
	}
	return pod
}

// C1, C12, C30, C33: init containers one after the other, one of them a second time,
// a sidecar beside them, handlers around the main container, and the sidecar last to
// go. While the pod waits its page says for what, and a kubelet that is killed
// changes nothing.
func TestInitChainSidecarAndHooks(t *testing.T) {
	onRuntimes(t, "crashLoopBackOff: {maxContainerRestartPeriod: 1s}", func(t *testing.T, s *scene) {
		folder := filepath.Join(s.dir, "steps")
		require.NoError(t, os.Mkdir(folder, 0o777))
		steps := func(want ...string) func() error {
			return func() error {
				data, err := os.ReadFile(folder + "/log")
				if have := strings.TrimSpace(string(data)); err == nil && have != strings.Join(want, "\n") {
					err = fmt.Errorf("%q", have)
				}
				return err
			}
		}
		s.place(t, "chain.yaml", chainPod(s.images.Busybox, folder))
		wait(t, 30*time.Second, "the second init container runs", steps("first fails", "first", "sidecar"))
		const why = "init container second is running"
		wait(t, 10*time.Second, "the page says so", func() error { return s.explains("chain", why) })
		p, err := s.pod("chain")
		require.NoError(t, err)
		require.Equal(t, v1.PodPending, p.Status.Phase)
		require.Equal(t, "PodInitializing", p.Status.ContainerStatuses[0].State.Waiting.Reason)

		s.kill(t)
		s.start(t)
		wait(t, 10*time.Second, "the next one says so, too", func() error { return s.explains("chain", why) })
		require.NoError(t, os.WriteFile(folder+"/go", nil, 0o644))
		pod := s.running(t, "chain")
		wait(t, 10*time.Second, "postStart", steps("first fails", "first", "sidecar", "second", "main", "postStart"))
		require.Equal(t, []string{"Completed 1", "running 0", "Completed 0"}, initStates(pod))

		ids := s.see(t).ids()
		require.Len(t, ids, 2)
		s.kill(t)
		s.start(t)
		require.Equal(t, pod.UID, s.running(t, "chain").UID)
		hold(t, 2*time.Second, "nothing is started again", func() error {
			if now := s.see(t).ids(); fmt.Sprint(now) != fmt.Sprint(ids) {
				return fmt.Errorf("%v instead of %v", now, ids)
			}
			return nil
		})

		s.unplace(t, "chain.yaml")
		wait(t, 20*time.Second, "it goes", func() error { return s.gone("chain", string(pod.UID)) })
		require.NoError(t, steps("first fails", "first", "sidecar", "second", "main", "postStart", "preStop", "main ends", "sidecar ends")())
	})
}

func initStates(pod *v1.Pod) []string {
	var out []string
	for _, c := range pod.Status.InitContainerStatuses {
		state := "waiting"
		switch {
		case c.State.Running != nil:
			state = "running"
		case c.State.Terminated != nil:
			state = c.State.Terminated.Reason
		}
		out = append(out, fmt.Sprintf("%s %d", state, c.RestartCount))
	}
	return out
}

// explains returns nil when the JSON and the page of the pod's state have the text.
func (s *scene) explains(name, text string) error {
	report, err := s.statusz()
	if err != nil {
		return err
	}
	var found *server.PodReport
	for i := range report.Pods {
		if report.Pods[i].Name == name+"-"+s.node {
			found = &report.Pods[i]
		}
	}
	if found == nil || !strings.Contains(found.Why, text) {
		return fmt.Errorf("no %q: %+v", text, found)
	}
	r, err := http.NewRequest(http.MethodGet, s.url+"/statusz/pods", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/html")
	return s.has(r, text, "init first: terminated", "sidecar sidecar: running", "init second: running")
}

// has sends a request and returns nil when the answer has all texts.
func (s *scene) has(r *http.Request, texts ...string) error {
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		return err
	}
	for _, text := range texts {
		if !strings.Contains(b.String(), text) {
			return fmt.Errorf("%s has no %q: %s", r.URL, text, b.String())
		}
	}
	return nil
}
