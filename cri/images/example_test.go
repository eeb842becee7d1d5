package images_test

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
)

// empty is a runtime without images whose registry has no images either.
type empty struct{ cri.ImageService }

func (empty) ImageStatus(context.Context, *runtimeapi.ImageSpec, bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{}, nil
}

func (empty) PullImage(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	return "", errors.New("manifest unknown")
}

func Example() {
	m, err := images.New(images.Config{Service: empty{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "shop/web"}}},
	}
	for range 2 {
		_, err = m.Ensure(context.Background(), images.Request{Pod: pod, Container: &pod.Spec.Containers[0]})
		var failed *images.Error
		if errors.As(err, &failed) {
			fmt.Println(failed.Reason, !failed.NotBefore().IsZero())
		}
	}
	// Output:
	// ErrImagePull true
	// ImagePullBackOff true
}
