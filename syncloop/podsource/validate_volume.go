package podsource

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/podfacts"
)

// checkVolumes checks the name of each volume, its kind, and the fields of that kind.
func (c *checker) checkVolumes(supported []string) {
	names := map[string]bool{}
	for i := range c.pod.Spec.Volumes {
		vol := &c.pod.Spec.Volumes[i]
		at := field.NewPath("spec", "volumes").Index(i)
		c.invalid(at.Child("name"), vol.Name, validation.IsDNS1123Label(vol.Name)...)
		unique(c, names, vol.Name, at.Child("name"), vol.Name)
		kinds := setFields(&vol.VolumeSource)
		if len(kinds) > 1 {
			c.add(field.Forbidden(at.Child(kinds[1]), "cannot be combined with "+kinds[0]))
		}
		for _, kind := range kinds {
			if !slices.Contains(supported, kind) {
				c.add(field.Forbidden(at.Child(kind), "volumes of this kind are not supported on this node"))
			}
		}
		c.volume(&vol.VolumeSource, at)
	}
}

// volume refuses invalid names of objects, paths that lead out of a volume or occur twice, unknown
// fields of a pod, and invalid modes: such a volume could never be mounted.
func (c *checker) volume(vol *v1.VolumeSource, at *field.Path) {
	if s := vol.HostPath; s != nil {
		c.hostPath(s, at.Child("hostPath"))
	}
	if s := vol.CSI; s != nil {
		c.csi(s, at.Child("csi"))
	}
	if s := vol.ConfigMap; s != nil {
		c.object(at.Child("configMap"), "name", s.Name, s.Items)
		c.mode(at.Child("configMap", "defaultMode"), s.DefaultMode)
	}
	if s := vol.Secret; s != nil {
		c.object(at.Child("secret"), "secretName", s.SecretName, s.Items)
		c.mode(at.Child("secret", "defaultMode"), s.DefaultMode)
	}
	if s := vol.DownwardAPI; s != nil {
		c.mode(at.Child("downwardAPI", "defaultMode"), s.DefaultMode)
		c.downward(at.Child("downwardAPI", "items"), s.Items)
	}
	if s := vol.Projected; s != nil {
		at := at.Child("projected")
		c.mode(at.Child("defaultMode"), s.DefaultMode)
		for i := range s.Sources {
			c.projection(at.Child("sources").Index(i), &s.Sources[i])
		}
		for _, clash := range podfacts.Clashes(s.Sources) {
			c.invalid(at.Child(clash.Field), clash.Path, "must differ from "+at.Child(clash.First).String())
		}
	}
	if s := vol.NFS; s != nil {
		c.required(at.Child("nfs", "server"), s.Server)
		c.absolute(at.Child("nfs", "path"), s.Path)
	}
	if s := vol.EmptyDir; s != nil && !strings.HasPrefix(string(s.Medium), string(v1.StorageMediumHugePagesPrefix)) {
		media := []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages}
		if !slices.Contains(media, s.Medium) {
			c.add(field.NotSupported(at.Child("emptyDir", "medium"), s.Medium, append(media, v1.StorageMediumHugePagesPrefix+"SIZE")))
		}
	}
	if s := vol.Image; s != nil {
		c.required(at.Child("image", "reference"), s.Reference)
		oneOf(c, at.Child("image", "pullPolicy"), s.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	}
}

func (c *checker) hostPath(host *v1.HostPathVolumeSource, at *field.Path) {
	if c.absolute(at.Child("path"), host.Path) && hasDotDot(host.Path) {
		c.invalid(at.Child("path"), host.Path, "must not contain '..'")
	}
	oneOf(c, at.Child("type"), *host.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
		v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
}

const maxDriver = 63

func (c *checker) csi(csi *v1.CSIVolumeSource, at *field.Path) {
	c.invalid(at.Child("driver"), csi.Driver, validation.IsDNS1123Subdomain(strings.ToLower(csi.Driver))...)
	if len(csi.Driver) > maxDriver {
		c.add(field.TooLong(at.Child("driver"), csi.Driver, maxDriver))
	}
	if ref := csi.NodePublishSecretRef; ref != nil {
		c.required(at.Child("nodePublishSecretRef", "name"), ref.Name)
	}
}

// setFields returns the JSON names of the fields of a source that are set.
func setFields[T any](source *T) []string {
	var kinds []string
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			kinds = append(kinds, jsonName(value.Type().Field(i)))
		}
	}
	return kinds
}

func hasDotDot(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

func (c *checker) projection(at *field.Path, s *v1.VolumeProjection) {
	kinds := setFields(s)
	switch {
	case len(kinds) == 0:
		c.add(field.Required(at, "set one source"))
	case len(kinds) > 1:
		c.add(field.Forbidden(at.Child(kinds[1]), "cannot be combined with "+kinds[0]))
	}
	if s := s.ConfigMap; s != nil {
		c.object(at.Child("configMap"), "name", s.Name, s.Items)
	}
	if s := s.Secret; s != nil {
		c.object(at.Child("secret"), "name", s.Name, s.Items)
	}
	if s := s.DownwardAPI; s != nil {
		c.downward(at.Child("downwardAPI", "items"), s.Items)
	}
	if s := s.ServiceAccountToken; s != nil {
		at := at.Child("serviceAccountToken")
		c.path(at.Child("path"), s.Path)
		if seconds := s.ExpirationSeconds; seconds != nil && (*seconds < 600 || *seconds > 1<<32) {
			c.invalid(at.Child("expirationSeconds"), *seconds, "must be from 600 to 4294967296")
		}
	}
	if s := s.ClusterTrustBundle; s != nil {
		c.bundle(at.Child("clusterTrustBundle"), s)
	}
}

func (c *checker) bundle(at *field.Path, s *v1.ClusterTrustBundleProjection) {
	c.path(at.Child("path"), s.Path)
	switch {
	case s.Name != nil && s.SignerName != nil:
		c.add(field.Forbidden(at.Child("signerName"), "cannot be combined with name"))
	case s.Name != nil:
		c.required(at.Child("name"), *s.Name)
	case s.SignerName == nil || *s.SignerName == "":
		c.add(field.Required(at.Child("name"), "set name or signerName"))
	}
}

// downward checks the paths of files and the availability of their content.
func (c *checker) downward(at *field.Path, items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		at, item := at.Index(i), &items[i]
		c.path(at.Child("path"), item.Path)
		c.mode(at.Child("mode"), item.Mode)
		if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
			c.add(field.Required(at.Child("fieldRef"), "set either fieldRef or resourceFieldRef"))
			continue
		}
		if ref := item.FieldRef; ref != nil {
			c.fieldPath(at.Child("fieldRef", "fieldPath"), ref.FieldPath)
		} else if _, err := podfacts.ResourceValue(c.pod, nil, item.ResourceFieldRef, nil); err != nil {
			c.invalid(at.Child("resourceFieldRef"), item.ResourceFieldRef.Resource, err.Error())
		}
	}
}

// fieldPath accepts fields that are constant during the life of a pod.
func (c *checker) fieldPath(at *field.Path, value string) {
	err := errors.New("must be a field of the metadata")
	if strings.HasPrefix(value, "metadata.") {
		_, err = podfacts.FieldValue(c.pod, value, podfacts.Surroundings{})
	}
	if err != nil {
		c.invalid(at, value, err.Error())
	}
}

func (c *checker) object(at *field.Path, nameField, name string, items []v1.KeyToPath) {
	if c.required(at.Child(nameField), name) {
		c.invalid(at.Child(nameField), name, validation.IsDNS1123Subdomain(name)...)
	}
	for i := range items {
		at := at.Child("items").Index(i)
		c.invalid(at.Child("key"), items[i].Key, validation.IsConfigMapKey(items[i].Key)...)
		c.path(at.Child("path"), items[i].Path)
		c.mode(at.Child("mode"), items[i].Mode)
	}
}

func (c *checker) path(at *field.Path, value string) {
	switch {
	case !c.required(at, value):
	case path.IsAbs(value):
		c.invalid(at, value, "must be relative")
	case hasDotDot(value):
		c.invalid(at, value, "must not contain '..'")
	case len(value) > 1 && value[:2] == "..":
		c.invalid(at, value, "must not begin with '..'")
	}
}

func (c *checker) mode(at *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.invalid(at, *mode, fmt.Sprintf("must be from 0 to %d (octal 0777)", 0o777))
	}
}
