package podsource

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDriver is how long the name of a CSI driver is at most.
const maxDriver = 63

// checkCSI refuses what can be no driver and no secret.
func checkCSI(csi *v1.CSIVolumeSource, at *field.Path) field.ErrorList {
	errs := invalid(at.Child("driver"), csi.Driver, validation.IsDNS1123Subdomain(strings.ToLower(csi.Driver)))
	if len(csi.Driver) > maxDriver {
		errs = append(errs, field.TooLong(at.Child("driver"), csi.Driver, maxDriver))
	}
	if ref := csi.NodePublishSecretRef; ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(at.Child("nodePublishSecretRef", "name"), ""))
	}
	return errs
}
