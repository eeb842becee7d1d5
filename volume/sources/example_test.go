package sources_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/sources"
)

func ExampleSecret() {
	api := &objects.Memory{}
	api.PutSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Data:       map[string][]byte{"password": []byte("tulip"), "user": []byte("web")},
	})
	mode := int32(0o440)
	want := &v1.SecretProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: "db"},
		Items:                []v1.KeyToPath{{Key: "password", Path: "db/password"}},
	}
	files, err := sources.Secret(context.Background(), api, "shop", want, &mode)
	fmt.Println(len(files), string(files["db/password"].Data), err)
	want.Items[0].Key = "token"
	_, err = sources.Secret(context.Background(), api, "shop", want, &mode)
	fmt.Println(err)
	// Output:
	// 1 tulip <nil>
	// items[0].key: Secret shop/db has no key "token"
}
