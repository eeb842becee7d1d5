package podsource_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/podsource"
)

func ExampleDecoder() {
	d := podsource.Decoder{NodeName: "node-1"}
	pod, err := d.Decode([]byte(`
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: nginx
`), "file:/etc/manifests/web.yaml")
	fmt.Println(pod.Namespace, pod.Name, pod.Spec.Containers[0].ImagePullPolicy, err)

	_, err = d.Decode([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"container": []}}`), "")
	fmt.Println(err)
	// Output:
	// default web-node-1 Always <nil>
	// strict decoding error: unknown field "spec.container"
}

func ExampleMerger() {
	m, err := podsource.NewMerger(podsource.MergerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := func(name, host string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-of-" + name)},
			Spec:       v1.PodSpec{Hostname: host},
		}
	}
	show := func() {
		for _, change := range m.Changes("mine") {
			fmt.Print(change.Op)
			for _, p := range change.Pods {
				fmt.Print(" ", p.Name)
			}
			fmt.Println()
		}
		m.Handled("mine")
	}
	_ = m.Set("mine", []*v1.Pod{pod("a", "x"), pod("b", "x")})
	show()
	_ = m.Set("mine", []*v1.Pod{pod("b", "y"), pod("c", "x")})
	show()
	// Output:
	// ADD a b
	// REMOVE a
	// ADD c
	// UPDATE b
}
