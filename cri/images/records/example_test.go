package records_test

import (
	"context"
	"fmt"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

func Example() {
	dir := must(os.MkdirTemp("", "records"))
	defer os.RemoveAll(dir)
	store := must(records.Open(records.Config{Dir: dir}))
	const image, id = "registry.example.com/private:v1", "sha256:1"
	alice := credentials.Credential{
		Auth:   &runtimeapi.AuthConfig{Username: "alice", Password: "x"},
		Origin: credentials.Origin{Secret: &credentials.SecretRef{UID: "1", Namespace: "shop", Name: "registry"}},
	}
	_ = must(0, store.Begin(image, nil))
	// Here the runtime pulls the image.
	_ = must(0, store.Pulled(records.Pull{Image: image, Ref: id, Credential: &alice}))
	for _, mine := range [][]credentials.Credential{{alice}, nil} {
		ok, err := store.Verify(context.Background(), image, id, func(context.Context) ([]credentials.Credential, error) {
			return mine, nil
		})
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
