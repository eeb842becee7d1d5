package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/examples/kubelet/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigNamesWhatIsMissing(t *testing.T) {
	full := configOf("/d", func(context.Context) (*Connection, error) { return nil, nil })
	_, err := New(full)
	require.NoError(t, err)
	zero := Config{Connect: full.Connect}
	zero.Flags, zero.Kubelet.PodLogsDir = full.Flags, full.Kubelet.PodLogsDir
	a, err := New(zero)
	require.NoError(t, err)
	full.Kubelet.EvictionHard = nil
	require.Equal(t, full.Kubelet, a.cfg.Kubelet, "zeros of the configuration get their defaults")
	for field, drop := range map[string]func(*Config){
		"Flags.NodeName":     func(c *Config) { c.Flags.NodeName = "" },
		"Flags.RootDir":      func(c *Config) { c.Flags.RootDir = "" },
		"Kubelet.PodLogsDir": func(c *Config) { c.Kubelet.PodLogsDir = "" },
		"Connect":            func(c *Config) { c.Connect = nil },
	} {
		cfg := full
		drop(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// A runtime that cannot be reached is tried again with growing pauses, its error
// is part of the health, and an end in between is orderly.
func TestConnectIsRepeated(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		a, err := New(configOf(dir, func(context.Context) (*Connection, error) {
			tries = append(tries, time.Now())
			return nil, errors.New("runtime unix:///x: Version: no such file")
		}))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, a.Health()[0].OK)
		require.Contains(t, a.Health()[0].Message, "unix:///x: Version")
		require.NoError(t, <-done)
		require.Len(t, tries, 9)
		require.Equal(t, 100*time.Millisecond, tries[1].Sub(tries[0]))
		require.Equal(t, 5*time.Second, tries[8].Sub(tries[7]))
	})
}

// Two agents with one root folder would stop each other's pods: the second is
// refused, and told who has it.
func TestRootFolderInUse(t *testing.T) {
	cfg := configOf(t.TempDir(), func(context.Context) (*Connection, error) { return nil, errors.New("no runtime") })
	first, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	require.Eventually(t, func() bool {
		checks := first.Health()
		return strings.Contains(checks[0].Message, "no runtime")
	}, 10*time.Second, time.Millisecond)

	second, err := New(cfg)
	require.NoError(t, err)
	err = second.Run(t.Context())
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("root folder %s: in use by another agent, process %d", cfg.Flags.RootDir, os.Getpid()))

	stop()
	require.NoError(t, <-done)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, second.Run(ended), "it is free again")
}

func TestRootFolderThatCannotBeMade(t *testing.T) {
	require.ErrorContains(t, folders{root: "/dev/null/x"}.prepare(), "root folder")
}

func TestUnsupportedNamesTheField(t *testing.T) {
	class := "gvisor"
	pod := &v1.Pod{Spec: v1.PodSpec{
		RuntimeClassName: &class,
		InitContainers:   []v1.Container{{Name: "i", StartupProbe: passing()}},
		Containers: []v1.Container{{}, {
			LivenessProbe: &v1.Probe{}, ReadinessProbe: passing(), StartupProbe: &v1.Probe{PeriodSeconds: -1},
			VolumeMounts: []v1.VolumeMount{{SubPath: "a"}, {SubPathExpr: "b"}},
			EnvFrom:      []v1.EnvFromSource{{}}, VolumeDevices: []v1.VolumeDevice{{}},
			Env: []v1.EnvVar{
				{ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}},
				{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}},
				{ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{}}},
			},
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}},
		}},
	}}
	text := errors.Join((&ground{}).notSupported(pod)...).Error()
	require.NotContains(t, errors.Join(unsupported(pod)...).Error(), "example.com/gpu", "others count them")
	for _, field := range []string{
		"spec.initContainers[0].startupProbe", "spec.containers[1].livenessProbe: a handler is required", "spec.containers[1].startupProbe.periodSeconds: -1",
		"spec.containers[1].volumeDevices",
		"spec.containers[1].resources.limits[example.com/gpu]", "spec.runtimeClassName",
	} {
		require.Contains(t, text, field)
	}
	require.NotContains(t, text, "env")
	require.NotContains(t, text, "volumeMounts")
	require.NotContains(t, text, "readinessProbe")
	require.Empty(t, unsupported(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}))
}

// A crash loop shows why: how the container ended, not only that it waits.
func TestReportTellsHowAContainerEnded(t *testing.T) {
	end := &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "no such table\n"}
	waiting := containerReport("", v1.ContainerStatus{
		Name: "a", RestartCount: 2,
		State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: v1.ContainerState{Terminated: end},
	})
	require.Equal(t, server.ContainerReport{Name: "a", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 2, LastEnd: "exit code 3 (Error): no such table"}, waiting)
	over := containerReport("", v1.ContainerStatus{Name: "b", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}}})
	require.Equal(t, server.ContainerReport{Name: "b", State: "terminated", Reason: "Completed", Message: "exit code 0 (Completed)"}, over)
}
