package claims_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
)

// api has one claim that is bound to a volume. An agent reads them from its API server.
type api struct{}

func (api) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if namespace != "shop" || name != "orders" {
		return nil, volume.ErrNotFound
	}
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "c1"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "disk-7"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}, nil
}

func (api) PersistentVolume(context.Context, string) (*v1.PersistentVolume, error) {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk-7"},
		Spec: v1.PersistentVolumeSpec{
			ClaimRef:               &v1.ObjectReference{Namespace: "shop", Name: "orders", UID: "c1"},
			PersistentVolumeSource: v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk-7"}},
		},
	}, nil
}

func ExampleResolver() {
	resolver, err := claims.New(claims.Config{
		Objects: api{},
		// A CSI driver serves these volumes, which Kubernetes once mounted itself.
		Translate: func(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
			if disk := pv.Spec.GCEPersistentDisk; disk != nil {
				pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
					Driver: "pd.csi.storage.gke.io", VolumeHandle: disk.PDName,
				}}
			}
			return pv, nil
		},
	})
	if err != nil {
		panic(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}}
	for _, claim := range []string{"orders", "invoices"} {
		spec, err := resolver.Resolve(context.Background(), pod, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(spec.Persistent.Name, spec.Persistent.Spec.CSI.Driver)
	}
	// Output:
	// disk-7 pd.csi.storage.gke.io
	// claim shop/invoices: not found
}
