package filesink_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
)

func Example() {
	dir, err := os.MkdirTemp("", "filesink")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	sink, err := filesink.New(filesink.Config{Path: filepath.Join(dir, "status.json")})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u1"
	if err := sink.Put(pod); err != nil {
		fmt.Println(err)
	}
	// A writer.Writer does this.
	ref := status.Ref{Namespace: "default", Name: "web", UID: "u1"}
	if _, err := sink.Patch(context.Background(), ref, &v1.PodStatus{}, &v1.PodStatus{Phase: v1.PodRunning}); err != nil {
		fmt.Println(err)
	}
	answer := httptest.NewRecorder()
	sink.ServeHTTP(answer, httptest.NewRequest("GET", "/pods", nil))
	fmt.Print(answer.Body)
	// Output:
	// {"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"containers":null},"status":{"phase":"Running"}}]}
}
