package fake_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// ExampleRegistry pulls from a registry that requires credentials for one image and fails the first
// pull. BytesPerSecond would make pulls slow.
func ExampleRegistry() {
	registry := must(fake.Registry(
		fake.RemoteImage{Image: fake.Image{Name: "app:1"}},
		fake.RemoteImage{Image: fake.Image{Name: "secret:1"}, Username: "me", Password: "pass"},
	))
	down := must(fake.NewRules(0, fake.Rule{Call: "PullImage", Nth: 1, Err: status.Error(codes.Unavailable, "down")}))
	rt := must(fake.New(fake.Config{Pull: registry, Intercept: down.Intercept}))
	defer rt.Close()
	pull := func(image string, auth *runtimeapi.AuthConfig) {
		_, err := rt.PullImage(context.Background(), &runtimeapi.ImageSpec{Image: image}, auth, nil)
		fmt.Println(image, status.Code(err))
	}
	pull("app:1", nil)
	pull("app:1", nil)
	pull("secret:1", nil)
	pull("secret:1", &runtimeapi.AuthConfig{Username: "me", Password: "pass"})
	pull("other:1", nil)
	// Output:
	// app:1 Unavailable
	// app:1 OK
	// secret:1 Unknown
	// secret:1 OK
	// other:1 NotFound
}
