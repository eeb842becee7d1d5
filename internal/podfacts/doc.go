// Package podfacts decides, once for all rooms, what follows from a pod's spec
// and metadata alone: its full name, where it comes from, whether a container
// of it may run again, its quality-of-service class.
package podfacts
