package request

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// benchPods are pods of 3 containers as people write them, with a bit of
// everything, and what they refer to.
func benchPods(m *Memory, n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pod := testPod("app", "proxy", "metrics")
		pod.Name, pod.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint("uid-", i))
		pod.Annotations = map[string]string{"checksum/config": "0123456789abcdef", "team": "shop"}
		pod.Spec.DNSPolicy = v1.DNSClusterFirst
		pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr(int64(1000)), FSGroup: ptr(int64(2000))}
		m.SetVolume(pod.UID, "data", Volume{Path: "/var/lib/kubelet/pods/x/volumes/data"})
		for j := range pod.Spec.Containers {
			c := &pod.Spec.Containers[j]
			c.Resources = v1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "128Mi"), Limits: quantities("memory", "256Mi")}
			c.Ports = []v1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + j), Protocol: v1.ProtocolTCP}}
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
			c.Command, c.Args = []string{"/app"}, []string{"--listen=$(POD_IP):8080", "--node=$(NODE)"}
			c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("conf")}}}
			c.Env = []v1.EnvVar{
				{Name: "POD_IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				{Name: "NODE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
				{Name: "PASSWORD", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("pass"), Key: "A"}}},
				{Name: "URL", Value: "http://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)/"},
			}
		}
		pods[i] = pod
	}
	return pods
}

// BenchmarkPod builds the requests of a pod of 3 containers: one sandbox and 3
// containers. The figure to keep, with the decision of package actions: 150
// microseconds.
func BenchmarkPod(b *testing.B) {
	m := objects()
	m.SetServices(service("shop", "db", "10.96.0.9", v1.ServicePort{Name: "sql", Port: 5432}), service("default", "kubernetes", "10.96.0.1", v1.ServicePort{Name: "https", Port: 443}))
	builder, err := New(Config{
		Node:   Node{Name: "node-1", IPs: []string{"192.0.2.1"}, MemoryCapacity: 16 << 30, CgroupV2: true, SwapController: true, HugePageSizes: []string{"1GB", "2MB"}},
		DNS:    DNS{ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"},
		Inputs: Inputs{ConfigMaps: m, Secrets: m, Services: m, Volumes: m, SubPaths: m},
	})
	require.NoError(b, err)
	pods := benchPods(m, 100)
	ips := []string{"10.0.0.2"}
	b.ReportAllocs()
	start := cpuTime(b)
	for i := 0; b.Loop(); i++ {
		pod := pods[i%len(pods)]
		if _, err := builder.Sandbox(pod, 0); err != nil {
			b.Fatal(err)
		}
		for j := range pod.Spec.Containers {
			in := Instance{Pod: pod, Container: &pod.Spec.Containers[j], PodIPs: ips, HostsFile: "/hosts", TerminationFile: "/message"}
			if _, err := builder.Container(b.Context(), in); err != nil {
				b.Fatal(err)
			}
		}
	}
	// On a busy machine the time that passes says little.
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process has used so far, garbage collection included.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
