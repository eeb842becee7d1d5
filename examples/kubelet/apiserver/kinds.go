package apiserver

import (
	"context"

	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	certv1 "k8s.io/api/certificates/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func resource[T, L any, PT interface {
	*T
	Object
}, PL interface {
	*L
	runtime.Object
}](c *Client, version schema.GroupVersion, plural, namespace string) Resource[PT, PL] {
	return Resource[PT, PL]{
		client: c, namespace: namespace,
		kind: kind[PT, PL]{version: version, plural: plural, object: func() PT { return new(T) }},
	}
}

// Pods returns the pods of a namespace.
func (c *Client) Pods(namespace string) Resource[*v1.Pod, *v1.PodList] {
	return resource[v1.Pod, v1.PodList](c, v1.SchemeGroupVersion, "pods", namespace)
}

// Nodes returns the nodes of the cluster.
func (c *Client) Nodes() Resource[*v1.Node, *v1.NodeList] {
	return resource[v1.Node, v1.NodeList](c, v1.SchemeGroupVersion, "nodes", "")
}

// Events returns the events of a namespace.
func (c *Client) Events(namespace string) Resource[*v1.Event, *v1.EventList] {
	return resource[v1.Event, v1.EventList](c, v1.SchemeGroupVersion, "events", namespace)
}

// Secrets returns the secrets of a namespace.
func (c *Client) Secrets(namespace string) Resource[*v1.Secret, *v1.SecretList] {
	return resource[v1.Secret, v1.SecretList](c, v1.SchemeGroupVersion, "secrets", namespace)
}

// ConfigMaps returns the config maps of a namespace.
func (c *Client) ConfigMaps(namespace string) Resource[*v1.ConfigMap, *v1.ConfigMapList] {
	return resource[v1.ConfigMap, v1.ConfigMapList](c, v1.SchemeGroupVersion, "configmaps", namespace)
}

// Services returns the services of a namespace.
func (c *Client) Services(namespace string) Resource[*v1.Service, *v1.ServiceList] {
	return resource[v1.Service, v1.ServiceList](c, v1.SchemeGroupVersion, "services", namespace)
}

// ServiceAccounts returns the service accounts of a namespace.
func (c *Client) ServiceAccounts(namespace string) Resource[*v1.ServiceAccount, *v1.ServiceAccountList] {
	return resource[v1.ServiceAccount, v1.ServiceAccountList](c, v1.SchemeGroupVersion, "serviceaccounts", namespace)
}

// PersistentVolumes returns the persistent volumes of the cluster.
func (c *Client) PersistentVolumes() Resource[*v1.PersistentVolume, *v1.PersistentVolumeList] {
	return resource[v1.PersistentVolume, v1.PersistentVolumeList](c, v1.SchemeGroupVersion, "persistentvolumes", "")
}

// PersistentVolumeClaims returns the claims of a namespace.
func (c *Client) PersistentVolumeClaims(namespace string) Resource[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList] {
	return resource[v1.PersistentVolumeClaim, v1.PersistentVolumeClaimList](c, v1.SchemeGroupVersion, "persistentvolumeclaims", namespace)
}

// Leases returns the leases of a namespace.
func (c *Client) Leases(namespace string) Resource[*coordv1.Lease, *coordv1.LeaseList] {
	return resource[coordv1.Lease, coordv1.LeaseList](c, coordv1.SchemeGroupVersion, "leases", namespace)
}

// CSIDrivers returns the CSIDrivers of the cluster.
func (c *Client) CSIDrivers() Resource[*storagev1.CSIDriver, *storagev1.CSIDriverList] {
	return resource[storagev1.CSIDriver, storagev1.CSIDriverList](c, storagev1.SchemeGroupVersion, "csidrivers", "")
}

// CSINodes returns the CSINodes of the cluster.
func (c *Client) CSINodes() Resource[*storagev1.CSINode, *storagev1.CSINodeList] {
	return resource[storagev1.CSINode, storagev1.CSINodeList](c, storagev1.SchemeGroupVersion, "csinodes", "")
}

// VolumeAttachments returns the volume attachments of the cluster.
func (c *Client) VolumeAttachments() Resource[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList] {
	return resource[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList](c, storagev1.SchemeGroupVersion, "volumeattachments", "")
}

// RuntimeClasses returns the runtime classes of the cluster.
func (c *Client) RuntimeClasses() Resource[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return resource[nodev1.RuntimeClass, nodev1.RuntimeClassList](c, nodev1.SchemeGroupVersion, "runtimeclasses", "")
}

// TrustBundles returns the trust bundles of the cluster in version v1.
func (c *Client) TrustBundles() Resource[*certv1.ClusterTrustBundle, *certv1.ClusterTrustBundleList] {
	return resource[certv1.ClusterTrustBundle, certv1.ClusterTrustBundleList](c, certv1.SchemeGroupVersion, "clustertrustbundles", "")
}

// TrustBundlesV1beta1 returns the trust bundles of servers before Kubernetes 1.37.
func (c *Client) TrustBundlesV1beta1() Resource[*certv1beta1.ClusterTrustBundle, *certv1beta1.ClusterTrustBundleList] {
	return resource[certv1beta1.ClusterTrustBundle, certv1beta1.ClusterTrustBundleList](c, certv1beta1.SchemeGroupVersion, "clustertrustbundles", "")
}

// SigningRequests returns the certificate signing requests of the cluster.
func (c *Client) SigningRequests() Resource[*certv1.CertificateSigningRequest, *certv1.CertificateSigningRequestList] {
	return resource[certv1.CertificateSigningRequest, certv1.CertificateSigningRequestList](c, certv1.SchemeGroupVersion, "certificatesigningrequests", "")
}

// ReviewToken authenticates a token at the server, which stores nothing.
func (c *Client) ReviewToken(ctx context.Context, r *authv1.TokenReview) (*authv1.TokenReview, error) {
	return review(ctx, c, authv1.SchemeGroupVersion, "tokenreviews", r)
}

// ReviewAccess checks an authorization at the server, which stores nothing.
func (c *Client) ReviewAccess(ctx context.Context, r *authzv1.SubjectAccessReview) (*authzv1.SubjectAccessReview, error) {
	return review(ctx, c, authzv1.SchemeGroupVersion, "subjectaccessreviews", r)
}

func review[O runtime.Object](ctx context.Context, c *Client, version schema.GroupVersion, plural string, question O) (none O, err error) {
	r, err := c.restFor(version)
	if err != nil {
		return none, err
	}
	req := r.Post().Resource(plural).VersionedParams(&metav1.CreateOptions{}, c.codecs.parameters)
	return do[O](ctx, c, req.Body(question))
}

// RequestToken requests a token of a service account.
func (c *Client) RequestToken(ctx context.Context, namespace, account string, r *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	req, err := c.ServiceAccounts(namespace).request("POST")
	if err != nil {
		return nil, err
	}
	req = req.Name(account).SubResource("token").VersionedParams(&metav1.CreateOptions{}, c.codecs.parameters)
	return do[*authv1.TokenRequest](ctx, c, req.Body(r))
}
