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
	dir, err := os.MkdirTemp("", "records")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := records.Open(records.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	const image, id = "registry.example.com/private:v1", "sha256:1"
	alice := credentials.Credential{
		Auth:   &runtimeapi.AuthConfig{Username: "alice", Password: "x"},
		Origin: credentials.Origin{Secret: &credentials.SecretRef{UID: "1", Namespace: "shop", Name: "registry"}},
	}
	if err := store.Begin(image, nil); err != nil {
		fmt.Println(err)
		return
	}
	// Here the runtime pulls the image.
	if err := store.Pulled(records.Pull{Image: image, Ref: id, Credential: &alice}); err != nil {
		fmt.Println(err)
		return
	}
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
