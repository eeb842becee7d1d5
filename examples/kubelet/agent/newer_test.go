package agent

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// Pods may have values that the API server knows and this build does not: of enums, kinds of
// volumes and handlers. Such a pod runs, or its status or events name the field. Other pods are not
// affected.
func TestUnknownFieldValues(t *testing.T) {
	const runs = "runs"
	container := func(change func(*v1.Container)) func(*v1.Pod) {
		return func(pod *v1.Pod) { change(&pod.Spec.Containers[0]) }
	}
	security := func(s v1.SecurityContext) func(*v1.Pod) {
		return container(func(c *v1.Container) { c.SecurityContext = &s })
	}
	volume := func(s v1.VolumeSource, m v1.VolumeMount) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			m.Name, m.MountPath = "v", "/v"
			pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}}
			pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{m}
		}
	}
	odd := map[string]struct {
		change func(*v1.Pod)
		says   string // "" if it runs
	}{
		"restart policy":     {func(pod *v1.Pod) { pod.Spec.RestartPolicy = "Sometimes" }, runs},
		"DNS policy":         {func(pod *v1.Pod) { pod.Spec.HostNetwork, pod.Spec.DNSPolicy = false, "Odd" }, runs},
		"preemption policy":  {func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = new(v1.PreemptionPolicy("Odd")) }, runs},
		"operating system":   {func(pod *v1.Pod) { pod.Spec.OS = &v1.PodOS{Name: "plan9"} }, "PodOSNotSupported"},
		"toleration":         {func(pod *v1.Pod) { pod.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: "Odd"}} }, runs},
		"pull policy":        {container(func(c *v1.Container) { c.ImagePullPolicy = "Perhaps" }), runs},
		"termination policy": {container(func(c *v1.Container) { c.TerminationMessagePolicy = "Odd" }), runs},
		"container's policy": {container(func(c *v1.Container) { c.RestartPolicy = new(v1.ContainerRestartPolicy("Odd")) }), runs},
		"resize policy": {container(func(c *v1.Container) {
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: "Odd"}}
		}), runs},
		"probe":               {container(func(c *v1.Container) { c.LivenessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1} }), "spec.containers[0].livenessProbe: a handler is required"},
		"hook":                {container(func(c *v1.Container) { c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}} }), "FailedPostStartHook"},
		"stop signal":         {container(func(c *v1.Container) { c.Lifecycle = &v1.Lifecycle{StopSignal: new(v1.Signal("SIGODD"))} }), "stopSignal"},
		"port's protocol":     {container(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: 1, Protocol: "Odd"}} }), "protocol"},
		"seccomp":             {security(v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "Odd"}}), "securityContext.seccompProfile: type"},
		"AppArmor":            {security(v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: "Odd"}}), "securityContext.appArmorProfile: unknown type"},
		"procMount":           {security(v1.SecurityContext{ProcMount: new(v1.ProcMountType("Odd"))}), runs},
		"volume":              {volume(v1.VolumeSource{}, v1.VolumeMount{}), "volumes[0]"},
		"medium":              {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Odd"}}, v1.VolumeMount{}), "medium"},
		"hostPath":            {volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/", Type: new(v1.HostPathType("Odd"))}}, v1.VolumeMount{}), "hostPath.type"},
		"mount propagation":   {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, v1.VolumeMount{MountPropagation: new(v1.MountPropagationMode("Odd"))}), "mountPropagation"},
		"recursive read-only": {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyMode("Odd"))}), "recursive read-only"},
		"projected":           {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{}}}}, v1.VolumeMount{}), "sources[0]"},
		"variable":            {container(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{}}} }), "env A: valueFrom has no source"},
		"variables":           {container(func(c *v1.Container) { c.EnvFrom = []v1.EnvFromSource{{}} }), "envFrom[0]: no source is set"},
		"phase and conditions": {func(pod *v1.Pod) {
			pod.Status.Phase, pod.Status.Conditions = "Odd", []v1.PodCondition{{Type: "Odd", Status: "Odd"}}
		}, runs},
		"group policy": {func(pod *v1.Pod) {
			pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicy("Odd"))}
		}, "supplementalGroupsPolicy"},
	}
	inCluster(t, func(w *world) {
		w.configure = func(cfg *Config) { cfg.AppArmor = true }
		w.start()
		w.put(bound("bystander", "bystander"))
		w.Sleep(5 * time.Second)
		was := readySince(w.at("bystander"))
		named := func(name string) string {
			return strings.ToLower(strings.NewReplacer(" ", "-", "'", "-").Replace(name))
		}
		for name, c := range odd {
			pod := bound(named(name), named(name))
			c.change(pod)
			w.put(pod)
		}
		w.Sleep(time.Minute)
		running := w.Running()
		for name, c := range odd {
			told := w.told(named(name))
			if c.says == runs {
				assert.Len(w.t, running[named(name)], 1, "%s: %s", name, told)
				continue
			}
			assert.Empty(w.t, running[named(name)], name)
			assert.Contains(w.t, told, c.says, name)
		}
		require.Equal(w.t, []uint32{0}, running["bystander"])
		require.Equal(w.t, was, readySince(w.at("bystander")))
		for name := range odd {
			w.remove(named(name))
		}
		w.remove("bystander")
		w.Sleep(3 * time.Minute)
		require.Empty(w.t, apitest.All[*v1.Pod](w.api))
		w.requireNothingLeft()
	})
}

// told returns the texts that explain to a user why a pod does not run.
func (w *world) told(name string) string {
	var b strings.Builder
	status := w.at(name).Status
	fmt.Fprintln(&b, status.Phase, status.Reason, status.Message)
	for _, c := range status.ContainerStatuses {
		if c.State.Waiting != nil {
			fmt.Fprintln(&b, c.State.Waiting.Reason, c.State.Waiting.Message)
		}
	}
	for _, e := range apitest.All[*v1.Event](w.api) {
		if e.InvolvedObject.Name == name {
			fmt.Fprintln(&b, e.Reason, e.Message)
		}
	}
	return b.String()
}

// If a pod is edited between any two calls of its start, the last version runs, once, without
// needless restarts.
func TestEditedAtAnyStep(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*world, *v1.Pod)
		gone bool
	}{
		"annotated":   {edit: func(w *world, pod *v1.Pod) { pod.Annotations = map[string]string{"a": "b"}; w.put(pod) }},
		"a new image": {edit: func(w *world, pod *v1.Pod) { pod.Spec.Containers[1].Image = "busybox:2"; pod.Generation++; w.put(pod) }},
		"deleted":     {func(w *world, pod *v1.Pod) { w.remove(pod.Name) }, true},
		"vanished":    {func(w *world, pod *v1.Pod) { w.api.Remove(pod) }, true},
		"replaced":    {edit: func(w *world, pod *v1.Pod) { w.api.Remove(pod); w.put(bound(pod.Name, "a", "b")) }},
	} {
		for step := 1; step <= 5; step++ {
			if testing.Short() && step%2 == 0 {
				continue
			}
			t.Run(fmt.Sprint(name, " at ", step), func(t *testing.T) {
				inCluster(t, func(w *world) {
					w.put(bound("bystander", "bystander"))
					w.startFor(5 * time.Second)
					var calls atomic.Int32
					w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
						if calls.Add(1) == int32(step) {
							c.edit(w, w.at("p"))
							time.Sleep(50 * time.Millisecond)
						}
						return do()
					})
					w.put(bound("p", "a", "b"))
					w.Sleep(3 * time.Minute)
					require.GreaterOrEqual(w.t, int(calls.Load()), step)
					running := w.Running()
					require.Equal(w.t, []uint32{0}, running["bystander"])
					if c.gone {
						require.Len(w.t, running, 1)
						require.Nil(w.t, w.at("p"))
						require.Len(w.t, w.Sandboxes(), 1)
						return
					}
					require.Len(w.t, running["a"], 1)
					require.Len(w.t, running["b"], 1)
					require.Equal(w.t, v1.PodRunning, w.at("p").Status.Phase)
					for _, container := range w.Containers() {
						if container.State == runtimeapi.ContainerState_CONTAINER_RUNNING && container.Metadata.Name == "b" {
							require.Equal(w.t, w.at("p").Spec.Containers[1].Image, container.Image.UserSpecifiedImage)
						}
					}
				})
			})
		}
	}
}
