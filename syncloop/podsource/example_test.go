package podsource_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// watchPods runs a source and prints its pods until it has printed the given number of lines.
func watchPods(m *podsource.Merger, name string, source syncloop.EventSource, lines int) {
	ctx, stop := context.WithCancel(context.Background())
	err := source.Run(ctx, func(syncloop.Event) {
		if pods, _ := m.Pods(name); len(pods) == lines {
			for _, p := range pods {
				fmt.Println(p.Name)
			}
			stop()
		}
	})
	if err != nil {
		fmt.Println(err)
	}
}

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
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-of-" + name)}}
	}
	show := func() {
		pods, delivered := m.Pods("mine")
		fmt.Print(delivered)
		for _, p := range pods {
			fmt.Print(" ", p.Name, " from ", p.Annotations["kubernetes.io/config.source"])
		}
		fmt.Println()
	}
	show()
	emit := func(e syncloop.Event) { fmt.Println(e.Kind, "of", e.Source) } // an agent passes Loop.Emit
	_ = m.Set("mine", []*v1.Pod{pod("a"), pod("b")}, emit)
	_ = m.Set("mine", []*v1.Pod{pod("b"), pod("c")}, emit)
	show() // a Loop reads the set, passes the changes to its Handler, and then:
	fmt.Println("ready:", m.Ready())
	m.Handled("mine")
	fmt.Println("ready:", m.Ready())
	// Output:
	// false
	// pods changed of mine
	// pods changed of mine
	// true b from mine c from mine
	// ready: false
	// ready: true
}

func ExampleNewFileSource() {
	dir, _ := os.MkdirTemp("", "manifests")
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(
		"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}"), 0o600)

	m, _ := podsource.NewMerger(podsource.MergerConfig{})
	files, err := podsource.NewFileSource(podsource.FileConfig{
		Path: dir, Merger: m, Decoder: podsource.Decoder{NodeName: "node-1"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	watchPods(m, "file", files, 1)
	// Output: web-node-1
}

// A test runs a source in virtual time. NoWatch is needed, because the bubble's clock stops while
// a goroutine waits for the kernel. In your test, t is the test's own.
func ExampleNewFileSource_virtualTime() {
	dir, _ := os.MkdirTemp("", "manifests")
	defer func() { _ = os.RemoveAll(dir) }()
	synctest.Test(new(testing.T), func(t *testing.T) {
		m, _ := podsource.NewMerger(podsource.MergerConfig{})
		files, _ := podsource.NewFileSource(podsource.FileConfig{
			Path: dir, Merger: m, Decoder: podsource.Decoder{NodeName: "node-1"}, NoWatch: true, Period: time.Minute,
		})
		begin := time.Now()
		time.AfterFunc(90*time.Second, func() {
			_ = os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(
				"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}"), 0o600)
		})
		watchPods(m, "file", files, 1)
		fmt.Println("after", time.Since(begin))
	})
	// Output:
	// web-node-1
	// after 2m0s
}

// pods is a web server without a network.
type pods string

func (p pods) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(p)))}, nil
}

// A custom Client sets certificates and time limits or, as here, replies without a network.
func ExampleNewHTTPSource() {
	m, _ := podsource.NewMerger(podsource.MergerConfig{})
	web, err := podsource.NewHTTPSource(podsource.HTTPConfig{
		URL:     "https://fleet.example/nodes/node-1/pods",
		Header:  http.Header{"Authorization": {"Bearer token"}},
		Merger:  m,
		Decoder: podsource.Decoder{NodeName: "node-1"},
		Client: &http.Client{Transport: pods(`
apiVersion: v1
kind: PodList
items:
- metadata: {name: web}
  spec: {containers: [{name: app, image: nginx}]}
- metadata: {name: db}
  spec: {containers: [{name: app, image: postgres}]}
`)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	watchPods(m, "http", web, 2)
	// Output:
	// web-node-1
	// db-node-1
}

func ExampleFromChannel() {
	m, _ := podsource.NewMerger(podsource.MergerConfig{})
	sets := make(chan []*v1.Pod, 1)
	mine, err := podsource.FromChannel(m, "mine", sets)
	if err != nil {
		fmt.Println(err)
		return
	}
	sets <- []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}}
	watchPods(m, "mine", mine, 1)
	// Output: web
}

// A source that polls a function.
// After a restart a Saved provides the pods that its inner source delivered before.
func ExampleNewSaved() {
	dir, err := os.MkdirTemp("", "saved-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	start := func() (*podsource.Merger, *podsource.Saved) {
		m, _ := podsource.NewMerger(podsource.MergerConfig{Sources: []string{"api"}})
		saved, err := podsource.NewSaved(podsource.SavedConfig{Inner: m, Dir: dir, Sources: []string{"api"}})
		if err != nil {
			fmt.Println(err)
		}
		return m, saved
	}
	m, saved := start()
	_ = m.Set("api", []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}}, func(syncloop.Event) {})
	saved.Pods("api") // as the Loop does

	_, saved = start()
	pods, delivered := saved.Pods("api")
	_, inUse := saved.Age("api")
	fmt.Println(pods[0].Name, delivered, inUse)
	// Output: web true true
}

func ExampleFromSeq() {
	ask := func(context.Context) ([]*v1.Pod, error) {
		return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}}, nil
	}
	m, _ := podsource.NewMerger(podsource.MergerConfig{})
	mine, err := podsource.FromSeq(m, "mine", func(ctx context.Context) iter.Seq2[[]*v1.Pod, error] {
		return func(yield func([]*v1.Pod, error) bool) {
			for yield(ask(ctx)) {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Minute):
				}
			}
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	watchPods(m, "mine", mine, 1)
	// Output: web
}
