// Package fleet starts processes of this program as the replicas of a small fleet on one host, follows what they report,
// and pauses and kills them.
package fleet
