// Package podfacts has functions of a pod's spec and metadata that several packages share: full
// name, source, restart policy, quality-of-service class and others.
package podfacts
