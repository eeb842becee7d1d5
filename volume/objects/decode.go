package objects

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/yamlmerge"
	"github.com/podwright/podwright/volume"
)

// maxObject bounds the data of an object in bytes, as in the API server.
const maxObject = 1 << 20

type kind struct {
	// name is the kind in manifests, reported the kind in volume.Object.
	name, reported string
	versions       []string
	// cluster is true for objects without a namespace.
	cluster bool
	// decode converts a manifest to the value for the catalog.
	decode func(manifest []byte, o volume.Object) (value any, immutable bool, err error)
}

// kinds maps the names of folders to kinds.
var kinds = map[string]kind{
	"csidrivers":   {name: "CSIDriver", reported: KindCSIDriver, versions: []string{"storage.k8s.io/v1"}, cluster: true, decode: decodeCSIDriver},
	"configmaps":   {name: "ConfigMap", reported: KindConfigMap, versions: []string{"v1"}, decode: decodeConfigMap},
	"secrets":      {name: "Secret", reported: KindSecret, versions: []string{"v1"}, decode: decodeSecret},
	"tokens":       {name: "TokenRequest", reported: KindServiceAccount, versions: []string{"authentication.k8s.io/v1"}, decode: decodeToken},
	"trustbundles": {name: "ClusterTrustBundle", reported: KindTrustBundle, versions: []string{"certificates.k8s.io/v1", "certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"}, cluster: true, decode: decodeTrustBundle},
}

// object decodes the manifest of an object. Errors contain the invalid field.
func (k kind) object(manifest []byte, o volume.Object) (value any, immutable bool, err error) {
	if bytes.Contains(manifest, []byte{0}) {
		return nil, false, errors.New("is not text")
	}
	manifest, err = yamlmerge.Expand(manifest)
	if err != nil {
		return nil, false, err
	}
	var root any
	if err := yaml.Unmarshal(manifest, &root); err != nil {
		return nil, false, oneLine(err)
	}
	fields, ok := root.(map[string]any)
	if !ok {
		return nil, false, fmt.Errorf("is not an object with the fields of a %s", k.name)
	}
	// A missing value, or one that is no text, is quoted as "".
	if name, _ := fields["kind"].(string); name != k.name {
		return nil, false, fmt.Errorf("kind: %.80q: must be %q", name, k.name)
	}
	if version, _ := fields["apiVersion"].(string); !slices.Contains(k.versions, version) {
		return nil, false, fmt.Errorf("apiVersion: %.80q: must be %q", version, strings.Join(k.versions, `" or "`))
	}
	return k.decode(manifest, o)
}

var strictSerializer = serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, runtime.NewScheme(), runtime.NewScheme(),
	serializer.SerializerOptions{Yaml: true, Strict: true})

// decodeStrict decodes a manifest. Unknown and repeated fields are errors, and so are a name or
// namespace that differ from the path of the file.
func decodeStrict[T interface {
	runtime.Object
	metav1.Object
}](manifest []byte, into T, o volume.Object) error {
	if _, _, err := strictSerializer.Decode(manifest, nil, into); err != nil {
		return oneLine(err)
	}
	for _, f := range []struct{ field, have, want string }{
		{"name", into.GetName(), o.Name}, {"namespace", into.GetNamespace(), o.Namespace},
	} {
		if f.have != "" && f.have != f.want {
			return fmt.Errorf("metadata.%s: %.80q: must be %q, as in the path of the file", f.field, f.have, f.want)
		}
	}
	into.SetName(o.Name)
	into.SetNamespace(o.Namespace)
	return nil
}

func oneLine(err error) error {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "error converting YAML to JSON: ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "..."
	}
	return errors.New(text)
}

func decodeConfigMap(manifest []byte, o volume.Object) (any, bool, error) {
	c := &v1.ConfigMap{}
	if err := decodeStrict(manifest, c, o); err != nil {
		return nil, false, err
	}
	size := 0
	for key, value := range c.Data {
		if _, duplicate := c.BinaryData[key]; duplicate {
			return nil, false, fmt.Errorf("binaryData[%.80s]: the key is in data too", key)
		}
		if err := checkKey("data", key); err != nil {
			return nil, false, err
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		if err := checkKey("binaryData", key); err != nil {
			return nil, false, err
		}
		size += len(value)
	}
	if err := checkSize("data", size); err != nil {
		return nil, false, err
	}
	return c, c.Immutable != nil && *c.Immutable, nil
}

func decodeSecret(manifest []byte, o volume.Object) (any, bool, error) {
	s := &v1.Secret{}
	if err := decodeStrict(manifest, s, o); err != nil {
		return nil, false, err
	}
	s = withStringData(s)
	if s.Type == "" {
		s.Type = v1.SecretTypeOpaque
	}
	size := 0
	for key, value := range s.Data {
		if err := checkKey("data", key); err != nil {
			return nil, false, err
		}
		size += len(value)
	}
	if err := checkSize("data", size); err != nil {
		return nil, false, err
	}
	return s, s.Immutable != nil && *s.Immutable, nil
}

func checkKey(field, key string) error {
	if faults := validation.IsConfigMapKey(key); len(faults) > 0 {
		return fmt.Errorf("%s: %.80q is not a valid key: %s", field, key, strings.Join(faults, "; "))
	}
	return nil
}

func checkSize(field string, size int) error {
	if size > maxObject {
		return fmt.Errorf("%s: %d bytes, more than the limit of %d", field, size, maxObject)
	}
	return nil
}

type namedBundle struct {
	bundle
	name string
}

func decodeTrustBundle(manifest []byte, o volume.Object) (any, bool, error) {
	b := &certv1beta1.ClusterTrustBundle{}
	if err := decodeStrict(manifest, b, o); err != nil {
		return nil, false, err
	}
	if _, err := Certificates(b.Spec.TrustBundle); err != nil {
		return nil, false, fmt.Errorf("spec.trustBundle: %w", err)
	}
	if err := checkSize("spec.trustBundle", len(b.Spec.TrustBundle)); err != nil {
		return nil, false, err
	}
	return namedBundle{bundle{b.Spec.SignerName, b.Labels, b.Spec.TrustBundle}, o.Name}, false, nil
}

// decodeCSIDriver rejects unknown values, because the agent cannot implement them.
func decodeCSIDriver(manifest []byte, o volume.Object) (any, bool, error) {
	d := &storagev1.CSIDriver{}
	if err := decodeStrict(manifest, d, o); err != nil {
		return nil, false, err
	}
	for i, mode := range d.Spec.VolumeLifecycleModes {
		if mode != storagev1.VolumeLifecyclePersistent && mode != storagev1.VolumeLifecycleEphemeral {
			return nil, false, fmt.Errorf("spec.volumeLifecycleModes[%d]: %.80q: must be %q or %q", i, mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
		}
	}
	policies := []storagev1.FSGroupPolicy{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy}
	if p := d.Spec.FSGroupPolicy; p != nil && !slices.Contains(policies, *p) {
		return nil, false, fmt.Errorf("spec.fsGroupPolicy: %.80q: must be one of %q", *p, policies)
	}
	for i, r := range d.Spec.TokenRequests {
		if s := r.ExpirationSeconds; s != nil && *s < minExpiration {
			return nil, false, fmt.Errorf("spec.tokenRequests[%d].expirationSeconds: %d: must be at least %d", i, *s, minExpiration)
		}
	}
	return d, false, nil
}

// minExpiration is the shortest validity of a token in seconds, as in the API server.
const minExpiration = 600

// Certificates returns the DER content of the certificates in a PEM text. It fails if the text
// has no certificates, or has other content.
func Certificates(text string) (der []string, err error) {
	rest := []byte(text)
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && len(bytes.TrimSpace(rest)) > 0:
			return nil, errors.New("contains text that is not PEM")
		case block == nil && len(der) == 0:
			return nil, errors.New("contains no certificate")
		case block == nil:
			return der, nil
		case block.Type != "CERTIFICATE" || len(block.Headers) > 0:
			return nil, fmt.Errorf("PEM block %.40q is not a plain certificate", block.Type)
		}
		der = append(der, string(block.Bytes))
	}
}

type tokenFile struct {
	Token
	audiences []string
}

func decodeToken(manifest []byte, o volume.Object) (any, bool, error) {
	r := &authv1.TokenRequest{}
	if err := decodeStrict(manifest, r, o); err != nil {
		return nil, false, err
	}
	if r.Status.Token == "" {
		return nil, false, errors.New("status.token: required")
	}
	t := tokenFile{Token{Value: r.Status.Token, Expires: r.Status.ExpirationTimestamp.Time}, r.Spec.Audiences}
	issued, expires := times(r.Status.Token)
	t.Issued = issued
	if t.Expires.IsZero() {
		t.Expires = expires
	}
	return t, false, nil
}

// times returns the times of issue and expiry from a JSON Web Token. They are zero for other
// tokens.
func times(token string) (issued, expires time.Time) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, expires
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return issued, expires
	}
	var claims struct {
		IssuedAt *int64 `json:"iat"`
		Expires  *int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return issued, expires
	}
	if claims.IssuedAt != nil {
		issued = time.Unix(*claims.IssuedAt, 0)
	}
	if claims.Expires != nil {
		expires = time.Unix(*claims.Expires, 0)
	}
	return issued, expires
}
