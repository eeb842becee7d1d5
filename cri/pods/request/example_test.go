package request_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/volume"
)

var pod = &v1.Pod{
	ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "0d1e"},
	Spec: v1.PodSpec{
		DNSPolicy: v1.DNSClusterFirst,
		Containers: []v1.Container{{
			Name: "app", Image: "registry.example/app:v1",
			Command: []string{"/app", "--db=$(DB_HOST)", "--me=$(POD_IP)"},
			Env: []v1.EnvVar{
				{Name: "POD_IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			},
			EnvFrom:      []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "app"}}}},
			VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data", ReadOnly: true}},
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")},
				Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}},
	},
}

func Example() {
	// The objects that containers refer to. An agent with an API server would use its caches.
	inputs := &request.Memory{}
	inputs.AddConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app"}, Data: map[string]string{"DB_HOST": "db.shop"}})
	inputs.SetVolume(pod.UID, "data", volume.Mounted{Path: "/var/lib/kubelet/pods/0d1e/volumes/data"})

	b, err := request.New(request.Config{
		DNS:    request.DNS{NoHostResolver: true, ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"},
		Inputs: request.Inputs{ConfigMaps: inputs, Volumes: inputs},
	})
	if err != nil {
		log.Fatal(err)
	}
	sandbox, err := b.Sandbox(pod, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sandbox.Hostname, sandbox.LogDirectory, sandbox.DnsConfig.Searches)

	config, err := b.Container(context.Background(), request.Instance{
		Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: []string{"10.0.0.7"},
		Image: request.Image{Ref: "sha256:7a5e", UserSpecified: "registry.example/app:v1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Command, config.LogPath)
	fmt.Println(config.Mounts[0].HostPath, "->", config.Mounts[0].ContainerPath)
	fmt.Println(config.Linux.Resources.CpuShares, config.Linux.Resources.MemoryLimitInBytes)
	// Output:
	// web /var/log/pods/shop_web_0d1e [shop.svc.cluster.local svc.cluster.local cluster.local]
	// [/app --db=db.shop --me=10.0.0.7] app/0.log
	// /var/lib/kubelet/pods/0d1e/volumes/data -> /data
	// 256 67108864
}

// ExampleBuilder_Container_missing shows the error of a container that refers to a missing config
// map. Its text is the kubelet's.
func ExampleBuilder_Container_missing() {
	b, err := request.New(request.Config{Inputs: request.Inputs{ConfigMaps: &request.Memory{}}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.Container(context.Background(), request.Instance{Pod: pod, Container: &pod.Spec.Containers[0]})
	fmt.Println(err)
	// Output: spec.containers[0].envFrom[0]: configmap "app" not found
}

// ExampleIDs allocates IDs for user namespaces across a restart of the agent.
func ExampleIDs() {
	ids, err := request.NewIDs(request.IDRange{MaxPods: 110})
	if err != nil {
		log.Fatal(err)
	}
	// First record the ranges of earlier pods, from the files in their directories.
	found, err := request.DecodeUserNamespace([]byte(
		`{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`))
	if err != nil {
		log.Fatal(err)
	}
	if err := ids.Record("old", found); err != nil {
		log.Fatal(err)
	}
	// Then allocate new ones. Write the content to the file before the pod starts.
	users, err := ids.Allocate("new")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(users.HostID, users.Length)
	fmt.Println(string(users.Encode()))
	// Output:
	// 131072 65536
	// {"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}
}

// ExampleServiceEnv prints the variables of a service.
func ExampleServiceEnv() {
	db := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "my-db"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: []v1.ServicePort{{Port: 5432}}},
	}
	for _, v := range request.ServiceEnv([]*v1.Service{db})[:2] {
		fmt.Println(v.Name, v.Value)
	}
	// Output:
	// MY_DB_SERVICE_HOST 10.96.0.9
	// MY_DB_SERVICE_PORT 5432
}
