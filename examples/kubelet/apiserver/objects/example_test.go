package objects_test

import (
	"context"
	"log"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/objects"
	"github.com/podwright/podwright/volume"
)

func ExampleObjects() {
	run := func(ctx context.Context, kubeconfig string, changed func([]volume.Object), desired func() []*v1.Pod) error {
		client, err := apiserver.New(apiserver.Config{Kubeconfig: kubeconfig, UserAgent: "agent/1"})
		if err != nil {
			return err
		}
		o, err := objects.New(objects.Config{Client: client, OnChange: changed})
		if err != nil {
			return err
		}
		go func() {
			secret, err := o.Secret(ctx, "default", "password")
			if err != nil {
				log.Print(err) // it is told when this is different
				return
			}
			log.Print(len(secret.Data))
			o.Keep(desired(), nil) // in each housekeeping
		}()
		return o.Run(ctx)
	}
	_ = run
}
