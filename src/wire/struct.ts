// SPDX-License-Identifier: Apache-2.0
// JSON as `google.protobuf.Struct` and back, in the shape that proto-loader reads and writes. For answers to people; nothing hot goes through here.

export interface StructMessage {
  readonly fields: Record<string, StructValue>
}

/** One of these; readers may find the others as undefined. */
export interface StructValue {
  readonly nullValue?: 'NULL_VALUE'
  readonly numberValue?: number
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly structValue?: StructMessage
  readonly listValue?: { values: StructValue[] }
}

/** An object of JSON values as a Struct. Members that are undefined are left out; what JSON does not know becomes null. */
export function toStruct(json: object): StructMessage {
  const fields: Record<string, StructValue> = {}
  for (const [key, value] of Object.entries(json)) {
    if (value !== undefined) fields[key] = toValue(value)
  }
  return { fields }
}

function toValue(json: unknown): StructValue {
  if (typeof json === 'string') return { stringValue: json }
  if (typeof json === 'number') return { numberValue: json }
  if (typeof json === 'boolean') return { boolValue: json }
  if (Array.isArray(json)) return { listValue: { values: json.map(toValue) } }
  if (typeof json === 'object' && json !== null) return { structValue: toStruct(json) }
  return { nullValue: 'NULL_VALUE' }
}

/** The JSON object that a Struct stands for. */
export function fromStruct(struct: StructMessage): Record<string, unknown> {
  const json: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(struct.fields)) json[key] = fromValue(value)
  return json
}

function fromValue(value: StructValue): unknown {
  if (value.structValue) return fromStruct(value.structValue)
  if (value.listValue) return value.listValue.values.map(fromValue)
  return value.stringValue ?? value.numberValue ?? value.boolValue ?? null
}
