package podsource

import (
	"maps"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// This file applies the API server's conversions and defaults to static pods, for the fields that
// a node agent reads. The conversions:
//
//	spec.terminationGracePeriodSeconds          1 if negative
//	spec.serviceAccountName, .serviceAccount    equal; serviceAccountName takes precedence
//	metadata.annotations                        without pod.{alpha,beta}.kubernetes.io/
//	                                            init-containers and init-container-statuses
//	status                                      phase Pending, other fields dropped
//
// The defaults:
//
//	field                                       default
//	spec.restartPolicy                          Always
//	spec.dnsPolicy                              ClusterFirst
//	spec.schedulerName                          default-scheduler
//	spec.terminationGracePeriodSeconds          30
//	spec.enableServiceLinks                     true
//	spec.securityContext                        {}
//	volumes[]                                   emptyDir {} if no kind is given
//	volumes[].hostPath.type                     ""
//	volumes[].{secret,configMap,downwardAPI,
//	           projected}.defaultMode           0644
//	volumes[].image.pullPolicy                  as imagePullPolicy
//	containers[].imagePullPolicy                Always for the tag latest or none, else IfNotPresent
//	containers[].terminationMessagePath         /dev/termination-log
//	containers[].terminationMessagePolicy       File
//	containers[].ports[].protocol               TCP
//	containers[].ports[].hostPort               containerPort, with hostNetwork
//	containers[].resources.requests             limits, where only a limit is given
//	containers[].resources.{requests,limits},
//	           spec.overhead                    rounded up to thousandths
//	spec.resources.limits[hugepages-*]          the containers' limits; only with spec.resources
//	spec.resources.requests                     the containers' requests, else limits; only
//	                                            with spec.resources.limits
//	volumes[].ephemeral.volumeClaimTemplate
//	           .spec.volumeMode                 Filesystem
//	containers[].env[].valueFrom
//	           .fileKeyRef.optional             false
//	probes: timeoutSeconds, periodSeconds,
//	        successThreshold, failureThreshold  1, 10, 1, 3
//	probes: grpc.service                        ""
//	httpGet (probes and hooks): path, scheme    /, HTTP
//	fieldRef.apiVersion                         v1
const (
	defaultTerminationGrace    = 30
	defaultFileMode            = 0o644
	defaultTerminationLog      = "/dev/termination-log"
	defaultProbeTimeout        = 1
	defaultProbePeriod         = 10
	defaultProbeSuccess        = 1
	defaultProbeFailure        = 3
	defaultTokenExpirationSecs = 60 * 60
)

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// oldInitContainers matches annotations that a pod of Kubernetes 1.8 or later cannot have.
var oldInitContainers = regexp.MustCompile(`^pod\.(alpha|beta)\.kubernetes\.io/init-container(s|-statuses)$`)

// convert applies the conversions that precede the defaults and the validation.
func convert(pod *v1.Pod) {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		*grace = 1
	}
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return oldInitContainers.MatchString(key) })
}

// Default applies the API server's conversions and defaults to a pod made in Go, in place: those of
// the fields that a node agent reads. Without them, for example, a pod without imagePullPolicy
// pulls its images at each start. A second call changes nothing. Merger.Set applies it to its
// copies, the Decoder to manifests.
func Default(pod *v1.Pod) {
	convert(pod)
	setDefaults(pod)
}

func setDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	fill(&spec.RestartPolicy, v1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, v1.DNSClusterFirst)
	fill(&spec.SchedulerName, v1.DefaultSchedulerName)
	fillPointer(&spec.TerminationGracePeriodSeconds, defaultTerminationGrace)
	fillPointer(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	fillPointer(&spec.SecurityContext, v1.PodSecurityContext{})
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i], spec.HostNetwork)
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i], spec.HostNetwork)
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		defaultPodResources(spec)
	}
}

func defaultVolume(vol *v1.VolumeSource) {
	switch {
	case *vol == v1.VolumeSource{}:
		vol.EmptyDir = &v1.EmptyDirVolumeSource{}
	case vol.HostPath != nil:
		fillPointer(&vol.HostPath.Type, v1.HostPathUnset)
	case vol.Image != nil:
		fill(&vol.Image.PullPolicy, defaultPullPolicy(vol.Image.Reference))
	case vol.Secret != nil:
		fillPointer(&vol.Secret.DefaultMode, defaultFileMode)
	case vol.ConfigMap != nil:
		fillPointer(&vol.ConfigMap.DefaultMode, defaultFileMode)
	case vol.DownwardAPI != nil:
		fillPointer(&vol.DownwardAPI.DefaultMode, defaultFileMode)
		defaultDownwardFiles(vol.DownwardAPI.Items)
	case vol.Ephemeral != nil && vol.Ephemeral.VolumeClaimTemplate != nil:
		claim := &vol.Ephemeral.VolumeClaimTemplate.Spec
		fillPointer(&claim.VolumeMode, v1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	case vol.Projected != nil:
		fillPointer(&vol.Projected.DefaultMode, defaultFileMode)
		for i := range vol.Projected.Sources {
			defaultProjection(&vol.Projected.Sources[i])
		}
	}
}

func defaultProjection(src *v1.VolumeProjection) {
	if src.DownwardAPI != nil {
		defaultDownwardFiles(src.DownwardAPI.Items)
	}
	if src.ServiceAccountToken != nil {
		fillPointer(&src.ServiceAccountToken.ExpirationSeconds, defaultTokenExpirationSecs)
	}
}

func defaultDownwardFiles(files []v1.DownwardAPIVolumeFile) {
	for i := range files {
		if ref := files[i].FieldRef; ref != nil {
			fill(&ref.APIVersion, "v1")
		}
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	fill(&c.ImagePullPolicy, defaultPullPolicy(c.Image))
	fill(&c.TerminationMessagePath, defaultTerminationLog)
	fill(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			fill(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
		if from != nil && from.FileKeyRef != nil {
			fillPointer(&from.FileKeyRef.Optional, false)
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	c.Resources.Requests = fillResources(c.Resources.Requests, c.Resources.Limits)
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTP(hook.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, defaultProbeTimeout)
	fill(&p.PeriodSeconds, defaultProbePeriod)
	fill(&p.SuccessThreshold, defaultProbeSuccess)
	fill(&p.FailureThreshold, defaultProbeFailure)
	defaultHTTP(p.HTTPGet)
	if p.GRPC != nil {
		fillPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTP(get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	fill(&get.Path, "/")
	fill(&get.Scheme, v1.URISchemeHTTP)
}

// defaultPullPolicy returns the pull policy for an image's tag. An image with a digest never
// changes; an image without a tag has the tag latest.
func defaultPullPolicy(image string) v1.PullPolicy {
	if strings.Contains(image, "@") {
		return v1.PullIfNotPresent
	}
	tag := ""
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		tag = image[i+1:]
	}
	if tag == "" || tag == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
